// One nginx host, as far as leases go: its shared memory and its clock. What it does with them,
// nginx does in src/nginx_module/request.
#pragma once

#include "scenario.hpp"

#include "rate_limit/tables/deny_cache.hpp"
#include "rate_limit/tables/lease_book.hpp"
#include "rate_limit/tables/shared_table.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace simulation {

class Host final : public rate_limit::Machine {
  public:
    /// The clock began at any time before the simulation, and is fast by so many millionths.
    Host(Time clock_began, double drift);

    /// Sets this host's clock, which its lease book reads.
    void set_time(Time now);
    /// By this host's clock.
    static std::chrono::microseconds now() { return now_; }
    std::chrono::microseconds boot_now() const override { return now_; }
    bool is_alive(pid_t /*process*/) const override { return true; }
    /// When this host's clock will show that time.
    Time time_when(std::chrono::microseconds clock) const;

    const rate_limit::LeaseBook &book() const { return book_; }
    rate_limit::DenyCache &denials() { return denials_; }

    std::chrono::microseconds round_trip() const { return round_trip_; }
    void check_took(std::chrono::microseconds time);

    /// Forgets all, as a host does that is started anew.
    void forget();

    // A connection keeps the order of what is sent: when the last call arrived, and its answer.
    Time last_at_redis{0};
    Time last_answer{0};
    uint64_t life = 0; // of its worker: what an earlier one asked for is nobody's

  private:
    struct Memory {
        alignas(64) std::array<std::byte, 64> book_header;
        rate_limit::LeaseBook::Bucket book_bucket;
        alignas(64) std::array<std::byte, 64> denials_header;
        rate_limit::SharedTable::Tags denial_tags;
        rate_limit::SharedTable::Entries denials;
    };

    static inline std::chrono::microseconds now_;

    std::unique_ptr<Memory> memory_;
    rate_limit::LeaseBook book_;
    rate_limit::DenyCache denials_;
    std::chrono::microseconds round_trip_{0};
    Time clock_began_;
    double rate_; // of the clock
};

} // namespace simulation
