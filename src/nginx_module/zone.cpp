#include "zone.hpp"

#include <openssl/rand.h>

#include <new>

namespace nginx_module {

ngx_int_t ZoneMemory::attach(ngx_shm_zone_t *shared, const ZoneMemory *old) {
    if (old != nullptr) {
        layout_ = old->layout_;
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
    layout_ = new (memory) Layout;
    layout_->deny_buckets = (size - sizeof(Layout)) / sizeof(rate_limit::DenyTable::Bucket);
    if (RAND_bytes(reinterpret_cast<unsigned char *>(&layout_->seed), sizeof(layout_->seed)) != 1) {
        ngx_log_error(NGX_LOG_EMERG, shared->shm.log, 0,
                      "redis_rate_limit_zone: no random numbers");
        return NGX_ERROR;
    }
    return NGX_OK;
}

rate_limit::DenyTable ZoneMemory::deny_table() const {
    return rate_limit::DenyTable(
        {reinterpret_cast<rate_limit::DenyTable::Bucket *>(layout_->tables),
         layout_->deny_buckets});
}

} // namespace nginx_module
