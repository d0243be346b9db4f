// This worker process, as the limits of http know it.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/worker/worker.hpp"

#include <memory>

namespace nginx_module {

/// It is there from the start of a worker on that serves requests, to the end of the process.
inline std::unique_ptr<WorkerProcess> http_worker;

} // namespace nginx_module
