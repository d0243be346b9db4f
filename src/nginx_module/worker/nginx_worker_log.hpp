// What a worker does apart from any request, in nginx's error log.
#pragma once

#include "nginx_module/ngx.hpp"

#include "limiter/worker_log.hpp"

namespace nginx_module {

class NginxWorkerLog final : public limiter::WorkerLog {
  public:
    void report(limiter::LeaseEvent event, uint64_t units, int64_t time_us) const override;
    std::string_view describe(std::span<const limiter::AppliedRule> rules,
                              std::span<char> out) const override;
};

} // namespace nginx_module
