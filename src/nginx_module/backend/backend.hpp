// The running backends of this worker.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/conf/configuration.hpp"
#include "redis_client/link/backend.hpp"

namespace nginx_module {

/// Connects to all backends that rules use, so that the first request need not wait for that, and
/// begins to follow what operators set in them. Must be called before a worker uses backends.
void start_backends(const MainConf &conf);

/// Returns the running part of the backend in this worker. The first call makes it, and begins to
/// connect.
redis_client::Backend &backend_of(const redis_client::BackendSettings &settings);

/// Closes all running backends, because the worker ends. Other workers follow what operators set.
void stop_backends();

} // namespace nginx_module
