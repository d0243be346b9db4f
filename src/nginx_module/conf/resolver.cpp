#include "nginx_module/conf/resolver.hpp"

namespace nginx_module {

namespace {

// A resolver's name servers are an array in nginx, and a list in Angie since 1.12.

[[maybe_unused]] bool has_any(const ngx_array_t &name_servers) {
    return name_servers.nelts > 0;
}

[[maybe_unused]] bool has_any(const ngx_resolver_connection_t *name_servers) {
    return name_servers != nullptr;
}

template <typename Resolver>
bool reads_resolv_conf(const Resolver &resolver) {
    if constexpr (requires { resolver.resolv_conf; }) {
        return resolver.resolv_conf.len > 0; // in Angie; also if somebody wrote `resolver conf`
    } else {
        return false;
    }
}

} // namespace

ngx_resolver_t *usable_resolver(ngx_resolver_t *resolver) {
    return resolver != nullptr && has_any(resolver->connections) ? resolver : nullptr;
}

bool may_be_implied(const ngx_resolver_t &resolver) {
#if (T_NGX_RESOLVER_FILE) && defined(NGX_RESOLVER_FILE)
    (void)resolver; // Tengine's looks the same whether somebody configured it or not
    return true;
#else
    return reads_resolv_conf(resolver);
#endif
}

} // namespace nginx_module
