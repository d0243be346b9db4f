#include "redis_client/link/backoff.hpp"

#include <algorithm>

namespace redis_client {

std::chrono::milliseconds Backoff::next(uint32_t random, std::chrono::milliseconds at_most) {
    const std::chrono::milliseconds step = std::min(step_, at_most);
    const std::chrono::milliseconds half = step / 2;
    step_ = step * 2;
    return half + std::chrono::milliseconds(random % (half.count() + 1));
}

} // namespace redis_client
