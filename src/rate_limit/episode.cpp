#include "episode.hpp"

namespace rate_limit {

bool Episode::fail(Time now) {
    last_failure_ = now;
    if (failures_++ > 0) {
        return false;
    }
    began_ = now;
    return true;
}

std::optional<Episode::Summary> Episode::end(Time now) {
    if (now - last_failure_ < quiet) {
        return std::nullopt;
    }
    const Summary summary{.lasted = last_failure_ - began_, .failures = failures_};
    failures_ = 0;
    return summary;
}

} // namespace rate_limit
