#include "episode.hpp"

namespace rate_limit {

bool Episode::fail(Time now, uint64_t failed_checks) {
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

Episode::Summary Episode::end() {
    lasting_ = false;
    return {.lasted = last_failure_ - began_, .failed_checks = failed_checks_};
}

} // namespace rate_limit
