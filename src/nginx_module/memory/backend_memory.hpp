// How a backend's memory is shared by all workers.
#pragma once

#include "nginx_module/ngx.hpp"

#include "redis_client/link/backend_memory.hpp"

namespace nginx_module {

/// How much shared memory a backend takes.
size_t backend_memory_size();

/// Takes over shared memory that nginx has mapped. `old` is the same backend's memory in the
/// configuration before, or null if it is new. Old workers go on using it, so nothing is reset.
/// Returns NGX_OK, or NGX_ERROR if there is no room; the log says so.
ngx_int_t attach(redis_client::BackendMemory &memory, ngx_shm_zone_t *shared,
                 const redis_client::BackendMemory *old);

} // namespace nginx_module
