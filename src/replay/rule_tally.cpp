#include "rule_tally.hpp"

#include "../rate_limit/hash.hpp"

#include <algorithm>
#include <bit>
#include <span>

namespace replay {

namespace {

// Nobody who writes a log sees what collides: the seed need not be secret.
constexpr rate_limit::HashSeed seed{.low = 0x243f6a8885a308d3, .high = 0x13198a2e03707344};

uint64_t hash_of(std::string_view key) {
    return rate_limit::hash_of(seed, key).low;
}

/// Returns the least i for which 2^i is not less than the peak.
size_t step_of(uint64_t peak) {
    const auto step = static_cast<size_t>(std::bit_width(peak > 0 ? peak - 1 : 0));
    return std::min(step, RuleTally::peak_steps - 1);
}

constexpr size_t most_top_keys = 10;

} // namespace

int64_t state_us(const rate_limit::Quota &quota) {
    return std::max(std::chrono::microseconds(2 * quota.window), quota.refill()).count();
}

RuleTally::RuleTally(int64_t window_us, int64_t state_us)
    : window_us_(window_us),
      state_us_(state_us),
      top_memory_((rate_limit::TopKeys::memory_size + sizeof(uint64_t) - 1) / sizeof(uint64_t)),
      top_keys_(std::as_writable_bytes(std::span(top_memory_))) {
    top_keys_.set_kept(rate_limit::TopKeys::Kept::keys);
}

void RuleTally::count(std::string_view key, const Decision &decision) {
    const auto [found, is_new] = known_.try_emplace(hash_of(key));
    Key &known = found->second;
    if (is_new) {
        known.number = numbers_++;
    }
    const int64_t window = decision.time_us / window_us_;
    known.taken = known.window == window ? known.taken + decision.cost : decision.cost;
    known.window = window;
    known.peak = std::max(known.peak, known.taken);
    known.last_us = decision.time_us;
    highest_peak_ = std::max(highest_peak_, known.peak);

    ++counts_[static_cast<size_t>(decision.outcome)];
    series_.count(decision.time_us, decision.outcome);
    const bool is_rejected = decision.outcome == Outcome::rejected;
    if (is_rejected) {
        top_keys_.count(seed, rate_limit::TopKeys::Kept::keys, key);
    }
    spool_.add({.time_us = decision.time_us,
                .key = known.number,
                .is_rejected = is_rejected,
                .duration_us = decision.duration_us});
    if (known_.size() >= next_sweep_) {
        sweep(decision.time_us);
    }
}

/// Forgets the keys that have no state any more.
void RuleTally::sweep(int64_t now_us) {
    for (auto key = known_.begin(); key != known_.end();) {
        if (key->second.last_us + state_us_ < now_us) {
            ++forgotten_;
            ++forgotten_peaks_[step_of(key->second.peak)];
            key = known_.erase(key);
        } else {
            ++key;
        }
    }
    next_sweep_ = std::max(first_sweep, known_.size() * 2);
}

RuleTally::Peaks RuleTally::peaks() const {
    Peaks peaks = forgotten_peaks_;
    for (const auto &[hash, key] : known_) {
        ++peaks[step_of(key.peak)];
    }
    return peaks;
}

std::vector<RuleTally::TopKey> RuleTally::top_rejected() const {
    const auto buffer = std::make_unique<rate_limit::TopKeys::Buffer>();
    std::vector<TopKey> top;
    for (const auto &counted : top_keys_.read(rate_limit::TopKeys::Kept::keys, *buffer)) {
        if (top.size() == most_top_keys) {
            break;
        }
        const auto known = known_.find(hash_of(counted.key()));
        top.push_back(
            {.key = std::string(counted.key()),
             .rejected = counted.rejected,
             .number = known != known_.end() ? std::optional(known->second.number) : std::nullopt});
    }
    return top;
}

} // namespace replay
