#include "zone.hpp"

#include <openssl/rand.h>

#include <new>

namespace nginx_module {

namespace {

size_t whole_lines(size_t size) {
    return size - size % alignof(rate_limit::SharedTable::Tags);
}

} // namespace

ngx_int_t ZoneMemory::attach(ngx_shm_zone_t *shared, const ZoneMemory *old) {
    if (old != nullptr) {
        map(old->pool_, old->layout_);
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
    const size_t tables_size = size - sizeof(Layout);
    const size_t deny_table_size = whole_lines(tables_size / 4 * 3);
    map(pool, new (memory) Layout{.seed = {},
                                  .deny_table_size = deny_table_size,
                                  .local_table_size = tables_size - deny_table_size});
    if (RAND_bytes(reinterpret_cast<unsigned char *>(&layout_->seed), sizeof(layout_->seed)) != 1) {
        ngx_log_error(NGX_LOG_EMERG, shared->shm.log, 0,
                      "redis_rate_limit_zone: no random numbers");
        return NGX_ERROR;
    }
    return NGX_OK;
}

void ZoneMemory::map(ngx_slab_pool_t *pool, Layout *layout) {
    pool_ = pool;
    layout_ = layout;
    deny_table_ = rate_limit::DenyTable({layout->tables, layout->deny_table_size});
    local_table_ = rate_limit::SharedTable(
        {layout->tables + layout->deny_table_size, layout->local_table_size});
}

} // namespace nginx_module
