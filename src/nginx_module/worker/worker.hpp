// This worker process, as the limiter knows it.
#pragma once

#include "nginx_module/ngx.hpp"

#include "limiter/worker.hpp"
#include "nginx_module/conf/configuration.hpp"

namespace nginx_module {

/// Connects to all backends that rules use, so that the first request need not wait for that, and
/// begins to follow what operators set in them. Must be called when the worker starts, before
/// this_worker().
void start_worker(const MainConf &conf);
limiter::Worker &this_worker();
/// Gives back what is left of the worker's leases and closes its backends, because it ends. Other
/// workers follow what operators set.
void stop_worker();

} // namespace nginx_module
