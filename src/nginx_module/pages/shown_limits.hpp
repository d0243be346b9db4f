// The zones and rules that the pages show: those of http, and those of stream in the same nginx.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "limiter/worker.hpp"
#include "nginx_module/conf/configuration.hpp"

#include <array>
#include <cstddef>

namespace nginx_module {

/// The limits of http or of stream, and this worker's part of them.
struct ShownLimits {
    const MainConf *conf = nullptr;
    limiter::Worker *worker = nullptr;
};

class AllLimits {
  public:
    AllLimits();

    const ShownLimits *begin() const { return all_.data(); }
    const ShownLimits *end() const { return all_.data() + size_; }

  private:
    std::array<ShownLimits, 2> all_{};
    size_t size_ = 0;
};

/// Warns if nginx has a module of stream that is of another build, whose zones no page shows.
void warn_of_other_build(ngx_cycle_t *cycle);

} // namespace nginx_module
