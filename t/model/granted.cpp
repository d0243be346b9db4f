#include "granted.hpp"

namespace model {

using rate_limit::Quota;

Granted::Granted(const Quota &quota, bool aligned)
    : quota_(quota), model_(model_of(quota.algorithm, aligned)) {}

bool Granted::take(uint64_t units, int64_t now, int64_t window_end) {
    Quota quota = quota_;
    quota.cost = units;
    if (quota.algorithm == rate_limit::Algorithm::fixed_window) {
        // A window may begin before its first unit is granted: when that was leased.
        return (of_window_[window_end] += units) <= quota.limit && now < window_end;
    }
    const bool fits = model_->fits(quota, now);
    model_->take(quota, now);
    return fits;
}

} // namespace model
