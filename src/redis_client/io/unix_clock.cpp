#include "redis_client/io/unix_clock.hpp"

namespace redis_client {

std::chrono::microseconds system_unix_now() {
    return std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::system_clock::now().time_since_epoch());
}

} // namespace redis_client
