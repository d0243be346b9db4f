// What Redis denied until some time, kept in memory that many processes share: a client that was
// denied until then need not be asked for again.
#pragma once

#include "shared_table.hpp"
#include "verdict.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rate_limit {

/// Times are of one clock that all processes share and that never steps back. What a hash stands
/// for is all that the denial depends on.
class DenyTable {
  public:
    DenyTable() = default;
    /// Over memory for one bucket at least, aligned as SharedTable::Tags, that is all zeros at
    /// first, or that another table was over.
    explicit DenyTable(std::span<std::byte> memory);

    /// The check ran at some time between the two, so the denial holds from the first on, and the
    /// times that it tells are those from the second.
    struct CheckTimes {
        std::chrono::microseconds asked;
        std::chrono::microseconds answered;
    };
    /// False where another denial, that still held, had to make room.
    bool add(const Hash &hash, const Verdict &denied, const CheckTimes &times);

    /// Where nobody is known to be denied, there is nothing to look for.
    bool may_hold(std::chrono::microseconds now) const;

    /// The denial as it is now, if it still holds and is not older than `longest`: its times are
    /// counted down. Of units that came back since then Redis has not told.
    std::optional<Verdict> find(const Hash &hash, std::chrono::microseconds now,
                                std::chrono::microseconds longest) const;

    const SharedTable &table() const { return table_; }

  private:
    struct alignas(SharedTable::Tags) Header {
        std::atomic<uint64_t> last_end; // of all denials so far
    };

    Header *header_ = nullptr;
    SharedTable table_;
};

} // namespace rate_limit
