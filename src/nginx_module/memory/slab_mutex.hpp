// The lock of shared memory of nginx. If a worker dies that holds it, nginx releases it.
#pragma once

#include "nginx_module/ngx.hpp"

#include "limiter/zone_memory.hpp"

namespace nginx_module {

class SlabMutex final : public limiter::ZoneMutex {
  public:
    void set_memory(const ngx_shm_zone_t &shared) {
        pool_ = reinterpret_cast<ngx_slab_pool_t *>(shared.shm.addr);
    }
    void lock() const override { ngx_shmtx_lock(&pool_->mutex); }
    void unlock() const override { ngx_shmtx_unlock(&pool_->mutex); }

  private:
    ngx_slab_pool_t *pool_ = nullptr;
};

} // namespace nginx_module
