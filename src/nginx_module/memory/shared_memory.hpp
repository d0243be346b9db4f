// Shared memory of all workers, which outlives reloads.
#pragma once

#include "../ngx.hpp"

#include <string>

namespace nginx_module {

/// Memory that another configuration has under the same name, in the same size, is that of this
/// one, too. `init` and `data` are the caller's to set. Null: told and refused.
ngx_shm_zone_t *add_shared_memory(ngx_conf_t *cf, const std::string &name, size_t size);

/// A configuration's own new memory, all zeros: all that there is. Null: told.
void *take_shared_memory(ngx_shm_zone_t *shared, size_t &size);

} // namespace nginx_module
