// How much is in a table of buckets. Counting all of a large table would take too long for a
// process that has requests to serve.
#pragma once

#include <cstddef>

namespace rate_limit {

/// Returns the sum of `count_in(bucket)` over all buckets: for more than 1024 of them an estimate
/// from some, to a few percent.
template <typename CountIn>
size_t estimate_count(size_t buckets, const CountIn &count_in) {
    constexpr size_t most_looks = 1024;
    const size_t step = (buckets + most_looks - 1) / most_looks;
    size_t looks = 0;
    size_t found = 0;
    for (size_t bucket = 0; bucket < buckets; bucket += step, ++looks) {
        found += count_in(bucket);
    }
    return looks > 0 ? found * buckets / looks : 0;
}

} // namespace rate_limit
