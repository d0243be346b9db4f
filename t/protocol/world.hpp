// The state of all that takes part in the protocol: Redis, hosts, and what is on its way between.
// Everything unused is 0, and what has no meaning any more becomes 0: see canonical.hpp.
#pragma once

#include "setting.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace protocol {

inline constexpr size_t longest_log = 8; // window and lease of a sliding log together, in ticks
inline constexpr size_t most_hosts = 3;
inline constexpr size_t most_fetches = 3;
inline constexpr size_t most_returns = 3;

/// The units of each tick.
using UnitsOfTicks = std::array<Units, longest_log>;

/// What Redis keeps under the key. Each algorithm uses some of it.
struct Key {
    Time since_multiple;  // of the window in Unix time, where windows are aligned
    Time window_end;      // fixed_window; 0 if none has begun
    Units taken;          // fixed_window, sliding_window: in the current window
    Units taken_before;   // sliding_window: in the window before
    UnitsOfTicks entries; // sliding_log: by their times, from the first one on that counts
    Time arrival;         // buckets: when all units are there again
    Time moved_back;      // buckets: how far returns have moved that back
    Time lease_end;       // buckets: when the last lease ends
};

/// What clients got lately: the least that has to be known to tell whether one more unit is too
/// much.
struct Granted {
    UnitsOfTicks by_age;    // sliding_log, sliding_window: by the ticks since then
    Units in_window;        // fixed_window, sliding_window
    Units in_window_before; // sliding_window
    Time window_end;        // fixed_window: of the window that these units were granted in
    Time arrival;           // buckets: when all would be there if only these units had been taken
};

/// A lease that a host has. All its workers take units of it.
struct Lease {
    Units units;
    Units undecided; // taken by requests that another rule is going to deny
    Time end;        // when the host's clock says that it has ended
    Time receipt;    // names its units in a return
};
using Book = std::array<Lease, 2>;

/// A check that is to lease units, and then its answer.
struct Fetch {
    enum class Stage : uint8_t { none, asked, answered };
    Stage stage;
    uint8_t host; // that waits for it, or `nobody`
    Time time;    // when it was asked; once it is answered, when the lease ends by the host's clock
    Units units;  // that are leased
    Time receipt;

    static constexpr uint8_t nobody = most_hosts;
};

/// What tells Redis that units come back.
struct Return {
    Units units; // 0: there is none
    Time receipt;
    bool is_debit; // with Flaw::debit_after_use: that units were taken
};

struct World {
    Key key;
    Granted granted;
    std::array<Book, most_hosts> books;
    std::array<Fetch, most_fetches> fetches;
    std::array<Return, most_returns> returns;
    uint8_t quotas; // 1; 2 once Redis has lost the key

    bool operator==(const World &other) const {
        return std::memcmp(this, &other, sizeof(World)) == 0;
    }
};
static_assert(std::has_unique_object_representations_v<World>, "equal worlds have equal bytes");

} // namespace protocol
