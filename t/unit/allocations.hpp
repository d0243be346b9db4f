// What a piece of code allocates, and what happens where it cannot.
#pragma once

#include <cstddef>

/// No allocation beyond it succeeds, where the build has AddressSanitizer.
inline constexpr size_t largest_possible_allocation = 4 << 20;

struct Allocations {
    size_t count = 0;
    size_t largest = 0; // bytes
};

/// All allocations since the last watch_allocations(), as AddressSanitizer saw them; none where the
/// build has none to ask.
void watch_allocations();
Allocations watched_allocations();

/// What claims to hold little memory cannot hide a large block from it.
template <typename Run>
Allocations allocations_of(Run run) {
    watch_allocations();
    run();
    return watched_allocations();
}

/// While it lives, no object can be made: `new (std::nothrow)` gives null.
class NoNewObjects {
  public:
    NoNewObjects();
    ~NoNewObjects();
    NoNewObjects(const NoNewObjects &) = delete;
    NoNewObjects &operator=(const NoNewObjects &) = delete;
};
