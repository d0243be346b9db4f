#include "nginx_module/memory/shared_memory.hpp"

#include "nginx_module/util.hpp"

namespace nginx_module {

ngx_shm_zone_t *add_shared_memory(ngx_conf_t *cf, const ngx_module_t &module,
                                  const std::string &name, size_t size) {
    ngx_str_t pooled{name.size(), static_cast<u_char *>(ngx_pnalloc(cf->pool, name.size() + 1))};
    if (pooled.data == nullptr) {
        return nullptr;
    }
    ngx_cpystrn(pooled.data, to_ngx(name).data, name.size() + 1);
    return ngx_shared_memory_add(cf, &pooled, size, const_cast<ngx_module_t *>(&module));
}

void *take_shared_memory(ngx_shm_zone_t *shared, size_t &size) {
    auto *pool = reinterpret_cast<ngx_slab_pool_t *>(shared->shm.addr);
    size = pool->pfree * ngx_pagesize;
    void *memory = ngx_slab_alloc(pool, size);
    if (memory == nullptr) {
        ngx_log_error(NGX_LOG_EMERG, shared->shm.log, 0,
                      "redis_rate_limit: no memory in shared memory \"%V\"", &shared->shm.name);
    }
    return memory;
}

} // namespace nginx_module
