#include "redis_client/link/outage.hpp"

namespace redis_client {

bool Outage::fail(Time now, uint64_t failed_checks) {
    const bool begins = !lasting_;
    if (begins) {
        lasting_ = true;
        began_ = now;
        failed_checks_ = 0;
    }
    last_failure_ = now;
    failed_checks_ += failed_checks;
    return begins;
}

Outage::Summary Outage::end() {
    lasting_ = false;
    return {.lasted = last_failure_ - began_, .failed_checks = failed_checks_};
}

} // namespace redis_client
