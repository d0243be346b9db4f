#include "nginx_module/memory/backend_memory.hpp"

#include "nginx_module/memory/shared_memory.hpp"
#include "nginx_module/util.hpp"

#include <algorithm>

namespace nginx_module {

using redis_client::BackendMemory;

size_t backend_memory_size() {
    const size_t with_room_for_nginx = 2 * BackendMemory::size();
    return std::max(with_room_for_nginx, 8 * ngx_pagesize);
}

ngx_int_t attach(BackendMemory &memory, ngx_shm_zone_t *shared, const BackendMemory *old) {
    if (old != nullptr) {
        memory = *old;
        return NGX_OK;
    }
    size_t size = 0;
    void *free = take_shared_memory(shared, size);
    if (free == nullptr) {
        return NGX_ERROR;
    }
    memory.lay_out(free, precise_now());
    return NGX_OK;
}

} // namespace nginx_module
