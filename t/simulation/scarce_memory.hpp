// Memory that runs out.
#pragma once

#include "simulation/chance.hpp"

#include <cstddef>
#include <cstdint>

namespace simulation {

/// While it lives, memory runs out now and then for who asks for it with std::nothrow, and so can
/// be told. Only one lives at a time.
class ScarceMemory {
  public:
    /// One in so many times; 0: never. `count` is raised each time.
    ScarceMemory(Chance chance, uint64_t runs_out_one_in, uint64_t &count);
    ~ScarceMemory();
    ScarceMemory(const ScarceMemory &) = delete;
    ScarceMemory &operator=(const ScarceMemory &) = delete;

    /// Whether there is none now for an object of that size.
    static bool runs_out(size_t size);

  private:
    Chance chance_;
    uint64_t runs_out_one_in_;
    uint64_t &count_;
};

} // namespace simulation
