// A fault told once when it begins and once when it ends, however many requests meet it.
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

    /// A failure at `now`, of so many checks: true where an outage begins, and should be told.
    bool fail(Time now, uint64_t failed_checks);

    /// A success at `now`: what is to be told where an outage ends. It ends with the first
    /// success a second after the last failure, so that single failures between successes, such
    /// as one key of the wrong type, stay one outage.
    std::optional<Summary> succeed(Time now) {
        const bool ends = lasting_ && now - last_failure_ >= quiet;
        return ends ? std::optional(end()) : std::nullopt;
    }

    /// Ends one that lasts, since nothing that could succeed is left.
    Summary end();

    bool is_lasting() const { return lasting_; }

    static constexpr Time quiet{1000};

  private:
    bool lasting_ = false;
    Time began_{0};
    Time last_failure_{0};
    uint64_t failed_checks_ = 0;
};

} // namespace redis_client
