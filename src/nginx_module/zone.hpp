// A zone's shared memory: what the workers of this host know together.
#pragma once

#include "ngx.hpp"

#include "../rate_limit/deny_table.hpp"
#include "../rate_limit/hash.hpp"

#include <cstddef>

namespace nginx_module {

class ZoneMemory {
  public:
    /// Called when nginx has mapped the memory; `old` is the zone of the configuration before,
    /// whose memory this is, or null. Old workers go on using it: nothing is reset. NGX_OK or
    /// NGX_ERROR.
    ngx_int_t attach(ngx_shm_zone_t *shared, const ZoneMemory *old);

    const rate_limit::HashSeed &seed() const { return layout_->seed; }
    rate_limit::DenyTable deny_table() const { return deny_table_; }

  private:
    /// At the beginning of the memory.
    struct Layout {
        rate_limit::HashSeed seed;
        size_t deny_table_size;
        alignas(rate_limit::SharedTable::Tags) std::byte deny_table[];
    };

    void map(Layout *layout);

    Layout *layout_ = nullptr;
    rate_limit::DenyTable deny_table_;
};

} // namespace nginx_module
