// Random rules, costs and times, and most often those at which something changes.
//
// Environment: RATE_LIMIT_SEED.
#pragma once

#include "rate_limit/rule/rule.hpp"
#include "rate_limit/rule/verdict.hpp"

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>

namespace model {

class Traffic {
  public:
    Traffic();

    int64_t between(int64_t least, int64_t most);
    int64_t one_of(std::initializer_list<int64_t> choices);
    bool one_in(int64_t times) { return between(1, times) == 1; }

    rate_limit::Quota quota(rate_limit::Algorithm algorithm);
    rate_limit::Quota small_quota(rate_limit::Algorithm algorithm); // of limits to 20

    /// A limit or burst that an operator could change this one to. Of a bucket only one under which
    /// the units' times stay whole microseconds, so that the state is kept exactly.
    rate_limit::Quota changed(const rate_limit::Quota &quota, const rate_limit::Verdict &last);

    /// Of the next request: mostly 1, often what is just left, and one more.
    uint64_t cost(const rate_limit::Quota &quota, const rate_limit::Verdict &last);

    /// To the next request: mostly forward by parts of an interval, or to where the last verdict
    /// pointed, or a microsecond less; at times back.
    int64_t step(const rate_limit::Quota &quota, const rate_limit::Verdict &last);

  private:
    rate_limit::Quota within_bounds(rate_limit::Quota quota);

    std::mt19937_64 random_;
};

std::string described(const rate_limit::Quota &quota);

} // namespace model
