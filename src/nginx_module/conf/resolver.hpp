// nginx's resolver, and those of Angie and Tengine. If none is configured, these two make one that
// asks the name servers of the system.
#pragma once

#include "nginx_module/ngx.hpp"

namespace nginx_module {

/// Returns the resolver, or null if it is none or has no name servers.
ngx_resolver_t *usable_resolver(ngx_resolver_t *resolver);

/// Whether the resolver may be one that nobody configured, and that asks the name servers of
/// /etc/resolv.conf. Such a resolver knows no name of /etc/hosts.
bool may_be_implied(const ngx_resolver_t &resolver);

} // namespace nginx_module
