// Where a configuration stands: in http {} or in stream {}. Both have the same directives for
// backends, zones and rules, which the same functions read. This is what differs.
#pragma once

#include "nginx_module/ngx.hpp"

#include "rate_limit/settings/rule_parameters.hpp"

#include <string_view>

namespace nginx_module {

struct Context {
    rate_limit::Place place;
    std::string_view name;           // in JSON
    std::string_view backend_prefix; // before a backend's name, where others see it
    const ngx_module_t &module;      // the owner of shared memory
    /// Compiles a text with variables, which a request or session evaluates. Returns null if it is
    /// refused; the log says why.
    const void *(*compile)(ngx_conf_t *cf, ngx_str_t text);
    /// Whether nginx has a variable of this name. Called when all directives have been read.
    bool (*is_variable)(ngx_conf_t *cf, std::string_view name);
    /// Returns the resolver of the main level. Returns null if there is none, or one without name
    /// servers.
    ngx_resolver_t *(*resolver)(ngx_conf_t *cf);
};

} // namespace nginx_module
