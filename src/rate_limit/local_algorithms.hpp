// The algorithms behind local.hpp, each with what it makes of a record's values.
#pragma once

#include "local.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

namespace rate_limit {

/// Limits times windows take 75 bits.
__extension__ using Wide = __int128;

using Values = decltype(Record::values);

inline uint64_t word_of(std::chrono::microseconds time) {
    return static_cast<uint64_t>(time.count());
}
inline std::chrono::microseconds time_of(uint64_t word) {
    return std::chrono::microseconds(static_cast<int64_t>(word));
}

/// What the numbers that lua/<algorithm>.lua would reply with mean, and what to keep.
LocalDecision decision_of(const Quota &quota, RuleReply reply, std::chrono::microseconds now,
                          const Values &values);

LocalDecision decide_bucket(const std::optional<Record> &known, const Quota &quota,
                            std::chrono::microseconds now);
LocalDecision decide_fixed_window(const std::optional<Record> &known, const Quota &quota,
                                  bool aligned, const Now &now);
LocalDecision decide_sliding_window(const std::optional<Record> &known, const Quota &quota,
                                    const Now &now);
LocalDecision decide_sliding_log(const std::optional<Record> &known, const Quota &quota,
                                 std::chrono::microseconds now);
LocalDecision decide_concurrency(const std::optional<Record> &known, const Quota &quota,
                                 std::chrono::microseconds now);

/// `quota` is this host's part, and so is `used`, which is not 0; of the verdict's, times alone.
std::optional<Record> note_bucket(const std::optional<Record> &known, const Verdict &verdict,
                                  std::chrono::microseconds asked);
std::optional<Record> note_fixed_window(const std::optional<Record> &known, const Quota &quota,
                                        const Verdict &verdict, uint64_t used,
                                        std::chrono::microseconds asked);
std::optional<Record> note_sliding_window(const std::optional<Record> &known, const Quota &quota,
                                          const Verdict &verdict, uint64_t used,
                                          std::chrono::microseconds asked);
std::optional<Record> note_sliding_log(const std::optional<Record> &known, const Quota &quota,
                                       const Verdict &verdict, uint64_t used,
                                       std::chrono::microseconds asked);

} // namespace rate_limit
