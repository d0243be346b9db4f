// What a rule would have done: its counts, its keys, and its requests over time.
#pragma once

#include "rate_limit/rule/rule.hpp"
#include "replay/log/spool.hpp"
#include "replay/report/time_series.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace replay {

/// For how long a request may change what later ones of its key get.
int64_t state_us(const rate_limit::Quota &quota);

class RuleTally {
  public:
    /// The keys' peaks are told of windows of the quota's length that are aligned in Unix time, or
    /// of those of its calendar.
    explicit RuleTally(const rate_limit::Quota &quota);

    struct Decision {
        int64_t time_us; // they never step back
        Outcome outcome;
        uint64_t cost;
        int64_t duration_us;
    };
    void count(std::string_view key, const Decision &decision);
    void count_invalid() { ++invalid_; }
    void note_enforced() { holds_back_ = true; }

    uint64_t requests() const { return counts_[0] + counts_[1] + counts_[2]; }
    uint64_t count_of(Outcome outcome) const { return counts_[static_cast<size_t>(outcome)]; }
    uint64_t invalid() const { return invalid_; } // requests whose variables were no numbers
    bool holds_back() const {
        return holds_back_;
    } // some request was rejected, and not by a dry run
    const TimeSeries &series() const { return series_; }
    Spool &spool() { return spool_; }

    /// Returns the number of keys. Beyond 1,048,576, keys without a state are forgotten, and count
    /// as new ones if they come again: then it is an estimate.
    uint64_t keys() const { return forgotten_ + known_.size(); }
    /// Keys have the numbers below this one, in the order in which they came.
    uint64_t numbers_of_keys() const { return numbers_; }
    bool keys_are_estimated() const { return forgotten_ > 0; }

    /// How many keys took at most 2^i units in such a window, and more than half as many.
    static constexpr size_t peak_steps = 41;
    using Peaks = std::array<uint64_t, peak_steps>;
    Peaks peaks() const;
    uint64_t highest_peak() const { return highest_peak_; }

    /// A key that was rejected.
    struct RejectedKey {
        std::string key;
        uint64_t rejected = 0;
        std::vector<uint64_t> numbers; // in the spool: several if it was forgotten and came again
    };
    /// Returns the keys that were rejected most, ten at most. The counts are exact as long as no
    /// keys are forgotten.
    std::vector<RejectedKey> top_rejected() const;

  private:
    static constexpr size_t first_sweep = 1 << 20;

    struct Key {
        uint64_t number = 0;
        int64_t last_us = 0;
        int64_t window = -1; // the last one in which it took something, as window_of() tells it
        uint64_t taken = 0;  // in that window
        uint64_t peak = 0;
        uint64_t rejected = 0;
        std::string text; // once it was rejected
    };
    static void add_to(std::vector<RejectedKey> &top, const Key &key);

    void sweep(int64_t now_us);

    int64_t window_of(int64_t time_us) const;

    int64_t window_us_;
    const rate_limit::Calendar *calendar_;
    int64_t state_us_;
    TimeSeries::Counts counts_{};
    uint64_t invalid_ = 0;
    bool holds_back_ = false;
    TimeSeries series_;
    Spool spool_;
    std::unordered_map<uint64_t, Key> known_; // by the keys' hashes
    uint64_t numbers_ = 0;                    // of keys, given so far
    uint64_t forgotten_ = 0;
    Peaks forgotten_peaks_{};
    uint64_t highest_peak_ = 0;
    size_t next_sweep_ = first_sweep;
    std::vector<RejectedKey> forgotten_top_;
};

} // namespace replay
