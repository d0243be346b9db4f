// Memory that all workers share and that outlives reloads.
#pragma once

#include "nginx_module/ngx.hpp"

#include <string>

namespace nginx_module {

/// Adds shared memory of the module to the configuration. If the configuration before has memory of
/// the same name and size, both use the same. The caller sets `init` and `data`. Returns null if
/// the configuration is refused; the log says why.
ngx_shm_zone_t *add_shared_memory(ngx_conf_t *cf, const ngx_module_t &module,
                                  const std::string &name, size_t size);

/// Allocates all that is free in new shared memory, which is all zeros, and sets `size` to its
/// bytes. Returns null if nothing is free; the log says so.
void *take_shared_memory(ngx_shm_zone_t *shared, size_t &size);

} // namespace nginx_module
