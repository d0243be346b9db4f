#include "deny_table.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

using std::chrono::microseconds;

__extension__ using Wide = unsigned __int128;

/// An entry's words, times in microseconds.
enum Word : size_t {
    seal,        // the hash's low half, mixed with all other words
    hash_high,   //
    asked,       // when
    holds_for,   // from then on
    retry_after, // from then on, as all that follow
    next_unit,
    reset,
    remaining, // units
    word_count,
};
using Words = std::array<uint64_t, word_count>;

constexpr auto relaxed = std::memory_order_relaxed;

/// Any change of a word changes the sum; who writes it knows no secret to be kept.
uint64_t sum_of(const Words &words) {
    uint64_t sum = 0;
    for (size_t i = hash_high; i < word_count; ++i) {
        sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15;
        sum ^= sum >> 32;
    }
    return sum;
}

uint64_t count(microseconds time) {
    return static_cast<uint64_t>(time.count());
}

/// Two clocks may differ in their rates by a thousandth, where both are being adjusted.
uint64_t drift_of(uint64_t time) {
    return time / 1000 + 1;
}

/// What is surely left of a time when another one has passed.
microseconds left_of(uint64_t time, uint64_t passed) {
    const uint64_t surely_passed = passed - std::min(passed, drift_of(passed));
    return microseconds(static_cast<int64_t>(time - std::min(time, surely_passed)));
}

/// Not of the bits that choose the bucket.
uint16_t tag_of(const Hash &hash) {
    return static_cast<uint16_t>(hash.low);
}

/// The denial that an entry holds, if it is of this hash, whole, and still holds.
std::optional<Verdict> read(const DenyTable::Entry &entry, const Hash &hash, microseconds now,
                            microseconds longest) {
    Words words;
    for (size_t i = 0; i < word_count; ++i) {
        words[i] = entry.words[i].load(relaxed);
    }
    const uint64_t passed = count(now) - words[asked]; // huge where it lies ahead
    if (words[hash_high] != hash.high || (words[seal] ^ sum_of(words)) != hash.low ||
        passed >= std::min(words[holds_for], count(longest))) {
        return std::nullopt;
    }
    constexpr microseconds soon{1}; // 0 would say that no unit is missing
    return Verdict{.decision = Decision::denied,
                   .remaining = words[remaining],
                   .retry_after = left_of(words[retry_after], passed),
                   .next_unit = std::max(left_of(words[next_unit], passed), soon),
                   .reset = left_of(words[reset], passed)};
}

} // namespace

DenyTable::DenyTable(std::span<std::byte> memory) {
    const size_t buckets = memory.size() / (sizeof(Tags) + sizeof(Entries));
    tags_ = {reinterpret_cast<Tags *>(memory.data()), buckets};
    entries_ = {reinterpret_cast<Entries *>(tags_.data() + buckets), buckets};
}

size_t DenyTable::bucket_of(const Hash &hash) const {
    return static_cast<size_t>(Wide{hash.high} * tags_.size() >> 64);
}

void DenyTable::add(const Hash &hash, const Verdict &denied, const CheckTimes &times) {
    const uint64_t retry_us = count(denied.retry_after);
    if (retry_us <= drift_of(retry_us)) {
        return;
    }
    const uint64_t under_way_us = count(times.answered - times.asked);
    Words words{};
    words[hash_high] = hash.high;
    words[asked] = count(times.asked);
    words[holds_for] = retry_us - drift_of(retry_us);
    words[retry_after] = retry_us + under_way_us;
    words[next_unit] = count(denied.next_unit) + under_way_us;
    words[reset] = count(denied.reset) + under_way_us;
    words[remaining] = denied.remaining;
    words[seal] = hash.low ^ sum_of(words);

    // In the place of the same key, of one that no longer holds, or of the oldest.
    const auto age_rank = [&](const Entry &entry) {
        if (entry.words[hash_high].load(relaxed) == hash.high) {
            return uint64_t{0};
        }
        const uint64_t since = entry.words[asked].load(relaxed);
        const bool holds = since + entry.words[holds_for].load(relaxed) > words[asked];
        return holds ? since + 2 : uint64_t{1};
    };
    const size_t bucket = bucket_of(hash);
    Entries &entries = entries_[bucket];
    auto *const entry = std::ranges::min_element(entries, {}, age_rank);
    for (size_t i = 0; i < word_count; ++i) {
        entry->words[i].store(words[i], relaxed);
    }
    tags_[bucket][static_cast<size_t>(entry - entries.begin())].store(tag_of(hash), relaxed);
}

std::optional<Verdict> DenyTable::find(const Hash &hash, microseconds now,
                                       microseconds longest) const {
    const size_t bucket = bucket_of(hash);
    const uint16_t tag = tag_of(hash);
    for (size_t i = 0; i < entries_of_bucket; ++i) {
        if (tags_[bucket][i].load(relaxed) == tag) {
            if (const auto denied = read(entries_[bucket][i], hash, now, longest)) {
                return denied;
            }
        }
    }
    return std::nullopt;
}

} // namespace rate_limit
