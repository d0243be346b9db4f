// The deny cache: what Redis denied, and until when, in memory that many processes share. Until
// that time, Redis need not be asked for the same client.
#pragma once

#include "rate_limit/rule/verdict.hpp"
#include "rate_limit/tables/shared_table.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rate_limit {

/// Times are of one clock that all processes share and that never steps back. A hash is made of all
/// that a denial depends on.
class DenyCache {
  public:
    DenyCache() = default;
    /// Uses memory that has room for one bucket at least, is aligned as SharedTable::Tags, and is
    /// all zeros or was used by another table.
    explicit DenyCache(std::span<std::byte> memory);

    /// The check ran at some time between the two. So that no denial lasts too long, it holds from
    /// the first on; so that no client comes back too early, the times of its verdict count from
    /// the second.
    struct CheckTimes {
        std::chrono::microseconds asked;
        std::chrono::microseconds answered;
    };
    /// Keeps a denial that is certain for so long. Which other one makes room for it is chosen by
    /// SharedTable::store(). Returns false if that one still held.
    bool add(const Hash &hash, const Verdict &denied, std::chrono::microseconds certain_for,
             const CheckTimes &times);

    /// Returns false if there is surely nothing to find.
    bool may_hold(std::chrono::microseconds now) const;

    /// Returns the denial if it still holds and is not older than `longest`. Its times are counted
    /// down. Units that came back meanwhile are not known of, so `remaining` stays as it was.
    std::optional<Verdict> find(const Hash &hash, std::chrono::microseconds now,
                                std::chrono::microseconds longest) const;

    const SharedTable &table() const { return table_; }

  private:
    struct alignas(SharedTable::Tags) Header {
        std::atomic<uint64_t> last_end; // when the last of all denials so far ends
    };

    Header *header_ = nullptr;
    SharedTable table_;
};

} // namespace rate_limit
