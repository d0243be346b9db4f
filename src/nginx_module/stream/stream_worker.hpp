// This worker process, as the limits of stream know it.
#pragma once

#include "nginx_module/stream/ngx.hpp"

#include "nginx_module/worker/worker.hpp"

#include <memory>

namespace nginx_module::stream {

/// It is there from the start of a worker on that serves sessions, to the end of the process.
inline std::unique_ptr<WorkerProcess> worker;

} // namespace nginx_module::stream
