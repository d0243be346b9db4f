// nginx's resolver, also as Angie and Tengine have it: there one that asks the system's name
// servers takes the place of none.
#pragma once

#include "../ngx.hpp"

namespace nginx_module {

/// The resolver of the http level; null where there is none, or one without name servers.
ngx_resolver_t *resolver_of(ngx_conf_t *cf);

/// Whether nobody may have configured the resolver, so that it asks the name servers of
/// /etc/resolv.conf. Such a resolver knows no name of /etc/hosts.
bool may_be_implied(const ngx_resolver_t &resolver);

} // namespace nginx_module
