// This worker process, as the limiter knows it.
#pragma once

#include "nginx_module/ngx.hpp"

#include "limiter/worker.hpp"
#include "nginx_module/conf/configuration.hpp"

namespace nginx_module {

/// Must be called when the worker starts, before any other function of this file.
void start_worker(const MainConf &conf);
limiter::Worker &this_worker();
/// Gives back what is left of the worker's leases, because it ends.
void stop_worker();

} // namespace nginx_module
