#include "replay/rules/rule_tally.hpp"

#include "rate_limit/text/hash.hpp"

#include <algorithm>
#include <bit>

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

RuleTally::RuleTally(const rate_limit::Quota &quota)
    : window_us_(std::chrono::microseconds(quota.window).count()),
      calendar_(quota.calendar),
      state_us_(state_us(quota)) {}

/// Returns a number that no other window has.
int64_t RuleTally::window_of(int64_t time_us) const {
    return calendar_ != nullptr
               ? calendar_->window_at(std::chrono::microseconds(time_us)).begin.count()
               : time_us / window_us_;
}

void RuleTally::count(std::string_view key, const Decision &decision) {
    const auto [found, is_new] = known_.try_emplace(hash_of(key));
    Key &known = found->second;
    if (is_new) {
        known.number = numbers_++;
    }
    const int64_t window = window_of(decision.time_us);
    known.taken = known.window == window ? known.taken + decision.cost : decision.cost;
    known.window = window;
    known.peak = std::max(known.peak, known.taken);
    known.last_us = decision.time_us;
    highest_peak_ = std::max(highest_peak_, known.peak);

    ++counts_[static_cast<size_t>(decision.outcome)];
    series_.count(decision.time_us, decision.outcome);
    const bool is_rejected = decision.outcome == Outcome::rejected;
    if (is_rejected && known.rejected++ == 0) {
        known.text = key;
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
            add_to(forgotten_top_, key->second);
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

/// Adds a key to those that were rejected most, if it is one of them.
void RuleTally::add_to(std::vector<RejectedKey> &top, const Key &key) {
    if (key.rejected == 0) {
        return;
    }
    const auto same = std::ranges::find(top, key.text, &RejectedKey::key);
    if (same != top.end()) {
        same->rejected += key.rejected;
        same->numbers.push_back(key.number);
    } else {
        top.push_back({.key = key.text, .rejected = key.rejected, .numbers = {key.number}});
    }
    std::ranges::sort(top, [](const RejectedKey &one, const RejectedKey &other) {
        return one.rejected != other.rejected ? one.rejected > other.rejected : one.key < other.key;
    });
    top.resize(std::min(top.size(), most_top_keys));
}

std::vector<RuleTally::RejectedKey> RuleTally::top_rejected() const {
    auto top = forgotten_top_;
    for (const auto &[hash, key] : known_) {
        add_to(top, key);
    }
    return top;
}

} // namespace replay
