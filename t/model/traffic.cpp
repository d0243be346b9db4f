#include "traffic.hpp"

#include <algorithm>
#include <cstdlib>

namespace model {

using rate_limit::Algorithm;
using rate_limit::Quota;
using rate_limit::Verdict;
using std::chrono::microseconds;
using std::chrono::milliseconds;

Traffic::Traffic() : random_(static_cast<uint64_t>(std::atoll(std::getenv("RATE_LIMIT_SEED")))) {}

int64_t Traffic::between(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, std::max(least, most))(random_);
}

int64_t Traffic::one_of(std::initializer_list<int64_t> choices) {
    return *(choices.begin() + between(0, static_cast<int64_t>(choices.size()) - 1));
}

Quota Traffic::within_bounds(Quota quota) {
    quota.limit = std::clamp<uint64_t>(quota.limit, 1, largest_limit(quota.algorithm));
    if (quota.refill() > rate_limit::longest_refill) {
        quota.burst = 1;
    }
    return quota;
}

Quota Traffic::quota(Algorithm algorithm) {
    Quota quota;
    quota.algorithm = algorithm;
    quota.limit = static_cast<uint64_t>(one_of(
        {1, 2, 3, 7, 10, 100, between(1, 300), 1'000'000'000, between(1'000, 1'000'000'000)}));
    constexpr int64_t days = 86'400'000;
    quota.window =
        milliseconds(one_of({1, 10, 1'000, 60'000, 3'600'000, 366 * days, between(1, 100'000)}));
    if (one_in(8)) { // 10/7 of a microsecond each
        quota.limit = 700'000;
        quota.window = milliseconds(1'000);
    }
    if (rate_limit::is_bucket(algorithm) && one_in(2)) {
        quota.burst = static_cast<uint64_t>(one_of({1, 2, 5, 30, 1'000'000, between(1, 1000)}));
    }
    if (algorithm == Algorithm::leaky_bucket) {
        quota.delay = static_cast<uint64_t>(one_of({0, 1, 3, between(0, 1000)}));
    }
    return within_bounds(quota);
}

Quota Traffic::small_quota(Algorithm algorithm) {
    Quota quota;
    quota.algorithm = algorithm;
    quota.limit = static_cast<uint64_t>(between(1, 20));
    quota.window = milliseconds(one_of({10, 1'000, 7'000, 60'000}));
    if (rate_limit::is_bucket(algorithm)) {
        quota.burst = static_cast<uint64_t>(between(1, 20));
    }
    return quota;
}

Quota Traffic::changed(const Quota &quota, const Verdict &last) {
    Quota changed = quota;
    if (!rate_limit::is_bucket(quota.algorithm)) {
        const uint64_t taken = quota.limit - std::min(quota.limit, last.remaining);
        const auto around = static_cast<uint64_t>(one_of({0, 1, 2}));
        changed.limit = one_in(2) ? std::max<uint64_t>(taken + around, 1) - 1
                                  : quota.limit * static_cast<uint64_t>(one_of({1, 2, 4})) / 2;
    } else if (quota.burst && one_in(2)) {
        changed.burst =
            std::max<uint64_t>(*quota.burst / 2, 1) * static_cast<uint64_t>(one_of({1, 2, 3}));
    } else {
        const auto limit = static_cast<uint64_t>(one_of({1, 2, 5, 10, 20, 100}));
        const auto window = static_cast<uint64_t>(microseconds(quota.window).count());
        if (window % quota.limit == 0 && window % limit == 0) {
            changed.limit = limit;
        }
    }
    return within_bounds(changed);
}

uint64_t Traffic::cost(const Quota &quota, const Verdict &last) {
    const auto remaining = static_cast<int64_t>(last.remaining);
    const auto capacity = static_cast<int64_t>(quota.capacity());
    int64_t cost = 1;
    switch (between(0, 19)) {
    case 0:
    case 1:
        cost = 0;
        break;
    case 2:
    case 3:
        cost = between(1, 5);
        break;
    case 4:
        cost = remaining;
        break;
    case 5:
        cost = remaining + 1;
        break;
    case 6:
        cost = between(1, capacity / 4);
        break;
    case 7:
        cost = between(1, remaining);
        break;
    case 8:
        cost = capacity + one_of({0, 1, 2, 1'000'000});
        break;
    default:
        break;
    }
    return std::min(static_cast<uint64_t>(cost), largest_cost(quota.algorithm));
}

int64_t Traffic::step(const Quota &quota, const Verdict &last) {
    const int64_t window = microseconds(quota.window).count();
    const int64_t interval = window / static_cast<int64_t>(quota.limit);
    switch (between(0, 11)) {
    case 0:
    case 1:
        return std::max<int64_t>(0, last.retry_after.count() - one_of({0, 1}));
    case 2:
    case 3:
        return std::max<int64_t>(0, last.next_unit.count() - one_of({0, 1}));
    case 4:
        return one_in(10) ? std::max<int64_t>(0, last.reset.count() - one_of({0, 1})) : 1;
    case 5:
        return one_in(20) ? -between(0, window) : between(0, 3);
    case 6:
        return one_in(40) ? between(0, 3 * window) : 0;
    case 7:
        return 0;
    default:
        return between(0, interval);
    }
}

std::string described(const Quota &quota) {
    return std::string(rate_limit::to_string(quota.algorithm)) +
           " limit=" + std::to_string(quota.limit) +
           " window=" + std::to_string(quota.window.count()) +
           "ms burst=" + (quota.burst ? std::to_string(*quota.burst) : "none") +
           " delay=" + std::to_string(quota.delay) + " cost=" + std::to_string(quota.cost);
}

} // namespace model
