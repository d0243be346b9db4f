// What a module knows of a request, in the request's pool.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/util.hpp"

namespace nginx_module {

/// Returns the T of a request that pool_new() has made with this function to destroy it, or null.
/// It is found again after an internal redirect, for which nginx forgets the contexts of modules.
template <typename T>
T *find_context(ngx_http_request_t *r, const ngx_module_t &module, ngx_pool_cleanup_pt destroy) {
    auto *context = static_cast<T *>(ngx_http_get_module_ctx(r, module));
    if (context == nullptr && (r->internal || r->filter_finalize)) {
        context = find_in_pool<T>(r->pool, destroy);
        ngx_http_set_ctx(r, context, module);
    }
    return context;
}

} // namespace nginx_module
