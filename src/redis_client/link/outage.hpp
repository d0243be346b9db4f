// A fault of a backend, which is logged when it begins and when it ends, however many requests meet
// it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace redis_client {

class Outage {
  public:
    /// Times are of a clock that never steps back.
    using Time = std::chrono::milliseconds;

    struct Summary {
        Time lasted;
        uint64_t failed_checks;
    };

    /// So many checks failed at `now`. Returns true if an outage begins, which should be logged.
    bool fail(Time now, uint64_t failed_checks);

    /// There was a success at `now`. Returns a summary for the log if an outage ends. It ends with
    /// the first success a second after the last failure, so that single failures between
    /// successes, such as those of one key of the wrong type, stay one outage.
    std::optional<Summary> succeed(Time now) {
        const bool ends = lasting_ && now - last_failure_ >= quiet;
        return ends ? std::optional(end()) : std::nullopt;
    }

    /// Whether the last failure of an outage that lasts was so long ago that it may end though
    /// nothing has succeeded that failed.
    bool is_stale(Time now) const { return lasting_ && now - last_failure_ >= stale; }

    /// Ends an outage that lasts, because nothing is left that could succeed.
    Summary end();

    bool is_lasting() const { return lasting_; }

    static constexpr Time quiet{1000};
    static constexpr Time stale = std::chrono::minutes{10};

  private:
    bool lasting_ = false;
    Time began_{0};
    Time last_failure_{0};
    uint64_t failed_checks_ = 0;
};

} // namespace redis_client
