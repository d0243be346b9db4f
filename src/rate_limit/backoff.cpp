#include "backoff.hpp"

#include <algorithm>

namespace rate_limit {

std::chrono::milliseconds Backoff::next(uint32_t random) {
    const std::chrono::milliseconds half = step_ / 2;
    const std::chrono::milliseconds wait =
        half + std::chrono::milliseconds(random % (half.count() + 1));
    step_ = std::min(step_ * 2, longest);
    return wait;
}

} // namespace rate_limit
