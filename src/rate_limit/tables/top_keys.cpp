#include "rate_limit/tables/top_keys.hpp"

#include "rate_limit/memory_order.hpp"

#include <algorithm>
#include <cstring>

namespace rate_limit {

namespace {

uint64_t load(const std::atomic<uint64_t> &word) {
    return word.load(relaxed);
}

} // namespace

TopKeys::TopKeys(std::span<std::byte> memory)
    : memory_(reinterpret_cast<Memory *>(memory.data())) {}

uint64_t TopKeys::seal_of(uint64_t hash, Kept kept, const Words &words) {
    auto sum = static_cast<uint64_t>(kept);
    for (size_t i = base; i < word_count; ++i) {
        sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15;
        sum ^= sum >> 32;
    }
    return hash ^ sum;
}

TopKeys::Words TopKeys::words_of(uint64_t hash, uint64_t base_count, Kept kept,
                                 std::string_view key) {
    Words words{};
    words[base] = base_count;
    words[size] = std::min(key.size(), longest_key + 1);
    std::memcpy(&words[text], key.data(), std::min(key.size(), longest_key));
    words[seal] = seal_of(hash, kept, words);
    return words;
}

TopKeys::Words TopKeys::words_at(size_t place) const {
    Words words;
    std::ranges::transform(memory_->places[place], words.begin(), load);
    return words;
}

void TopKeys::write(size_t place, const Words &words) const {
    for (size_t i = 0; i < word_count; ++i) {
        memory_->places[place][i].store(words[i], relaxed);
    }
}

/// Returns the key's place, if it has one, after counting the rejection there.
std::optional<TopKeys::Place> TopKeys::find(uint64_t hash) const {
    auto *const found = std::ranges::find(memory_->hashes, hash, load);
    if (found == memory_->hashes.end()) {
        return std::nullopt;
    }
    const auto index = static_cast<size_t>(found - memory_->hashes.begin());
    return Place{.index = index, .count_before = memory_->counts[index].fetch_add(1, relaxed)};
}

/// Takes the place that has the smallest count, and counts the rejection there. Returns nothing if
/// other processes were quicker at each try.
std::optional<TopKeys::Place> TopKeys::take(uint64_t hash) const {
    constexpr int most_tries = 4;
    for (int tries = 0; tries < most_tries; ++tries) {
        auto *const smallest = std::ranges::min_element(memory_->counts, {}, load);
        const auto index = static_cast<size_t>(smallest - memory_->counts.begin());
        uint64_t count = load(*smallest);
        if (smallest->compare_exchange_strong(count, count + 1, relaxed)) {
            memory_->hashes[index].store(hash, relaxed);
            return Place{.index = index, .count_before = count};
        }
    }
    return std::nullopt;
}

void TopKeys::count(const HashSeed &seed, Kept kept, std::string_view key) const {
    if (kept == Kept::nothing || load(memory_->kept) != static_cast<uint64_t>(kept)) {
        return;
    }
    const bool is_cut = key.size() > longest_key;
    // What was cut is no whole key of the same bytes, which counts by itself.
    const uint64_t hash = hash_of(seed, key.substr(0, longest_key)).low ^ (is_cut ? 1 : 0);
    auto place = find(hash);
    if (place) {
        const Words words = words_at(place->index);
        if (words == words_of(hash, words[base], kept, key)) {
            return;
        }
    } else {
        place = take(hash);
    }
    if (place) {
        write(place->index, words_of(hash, place->count_before, kept, key));
    }
}

std::span<const TopKeys::Counted> TopKeys::read(Kept kept, Buffer &out) const {
    size_t size_of_out = 0;
    for (size_t place = 0; place < capacity; ++place) {
        const uint64_t hash = load(memory_->hashes[place]);
        const Words words = words_at(place);
        const uint64_t count = load(memory_->counts[place]);
        if (count <= words[base] || words[seal] != seal_of(hash, kept, words) ||
            words[size] > longest_key + 1) {
            continue;
        }
        Counted counted{.bytes = {},
                        .size = std::min<size_t>(words[size], longest_key),
                        .is_cut = words[size] > longest_key,
                        .rejected = count - words[base]};
        std::memcpy(counted.bytes.data(), &words[text], longest_key);
        // Two processes may have taken a place for the same key at the same time.
        auto *const same =
            std::find_if(out.begin(), out.begin() + size_of_out, [&counted](const Counted &other) {
                return other.key() == counted.key() && other.is_cut == counted.is_cut;
            });
        if (same != out.begin() + size_of_out) {
            same->rejected += counted.rejected;
        } else {
            out[size_of_out++] = counted;
        }
    }
    const auto counted = std::span(out).first(size_of_out);
    std::ranges::sort(counted, [](const Counted &one, const Counted &other) {
        return one.rejected != other.rejected ? one.rejected > other.rejected
                                              : one.key() < other.key();
    });
    return counted;
}

void TopKeys::set_kept(Kept kept) const {
    const auto now = static_cast<uint64_t>(kept);
    if (memory_->kept.exchange(now, relaxed) == now) {
        return;
    }
    for (size_t place = 0; place < capacity; ++place) {
        memory_->hashes[place].store(0, relaxed);
        memory_->counts[place].store(0, relaxed);
        write(place, {});
    }
}

} // namespace rate_limit
