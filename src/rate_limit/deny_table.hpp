// What Redis denied until some time, kept in memory that many processes share: a client that was
// denied until then need not be asked for again.
#pragma once

#include "shared_table.hpp"
#include "verdict.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>

namespace rate_limit {

class DenyTable {
  public:
    DenyTable() = default;
    /// Over memory as SharedTable takes it.
    explicit DenyTable(std::span<std::byte> memory) : table_(memory) {}

    /// A denial that was asked for at `asked` and is to be known for `longest` at most. Times are
    /// of one clock that all processes share and that never steps back. What the hash stands for is
    /// all that the denial depends on.
    void add(const Hash &hash, const Verdict &denied, std::chrono::microseconds asked,
             std::chrono::microseconds longest);

    /// The denial as it is now, if it still holds: its times are counted down.
    std::optional<Verdict> find(const Hash &hash, std::chrono::microseconds now) const;

  private:
    SharedTable table_;
};

} // namespace rate_limit
