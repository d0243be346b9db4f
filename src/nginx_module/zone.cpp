#include "zone.hpp"

#include <openssl/rand.h>

#include <new>

namespace nginx_module {

ngx_int_t ZoneMemory::attach(ngx_shm_zone_t *shared, const ZoneMemory *old) {
    if (old != nullptr) {
        map(old->layout_);
        return NGX_OK;
    }
    auto *pool = reinterpret_cast<ngx_slab_pool_t *>(shared->shm.addr);
    const size_t size = pool->pfree * ngx_pagesize;
    void *memory = ngx_slab_alloc(pool, size); // all there is, once
    if (memory == nullptr) {
        ngx_log_error(NGX_LOG_EMERG, shared->shm.log, 0,
                      "redis_rate_limit_zone: invalid zone \"%V\", expected more memory",
                      &shared->shm.name);
        return NGX_ERROR;
    }
    map(new (memory) Layout{.seed = {}, .deny_table_size = size - sizeof(Layout)});
    if (RAND_bytes(reinterpret_cast<unsigned char *>(&layout_->seed), sizeof(layout_->seed)) != 1) {
        ngx_log_error(NGX_LOG_EMERG, shared->shm.log, 0,
                      "redis_rate_limit_zone: no random numbers");
        return NGX_ERROR;
    }
    return NGX_OK;
}

void ZoneMemory::map(Layout *layout) {
    layout_ = layout;
    deny_table_ = rate_limit::DenyTable({layout->deny_table, layout->deny_table_size});
}

} // namespace nginx_module
