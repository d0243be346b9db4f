#include "rate_limit/tables/shared_table.hpp"

#include "rate_limit/memory_order.hpp"
#include "rate_limit/tables/bucket_estimate.hpp"

#include <algorithm>
#include <utility>

namespace rate_limit {

namespace {

using std::chrono::microseconds;

/// An entry's words. Times are microseconds.
enum Word : size_t {
    seal, // the hash's low half, mixed with all other words
    hash_high,
    time_stored,
    holds_for,
    first_value,
    word_count = first_value + std::tuple_size_v<decltype(Record::values)>,
};
using Words = std::array<uint64_t, word_count>;
static_assert(sizeof(Words) == sizeof(SharedTable::Entry));

/// Any change of a word changes the sum. It needs no secret, for all who can write are trusted.
uint64_t sum_of(const Words &words) {
    uint64_t sum = 0;
    for (size_t i = hash_high; i < word_count; ++i) {
        sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15;
        sum ^= sum >> 32;
    }
    return sum;
}

uint64_t word_of(microseconds time) {
    return static_cast<uint64_t>(time.count());
}

microseconds time_of(uint64_t word) {
    return microseconds(static_cast<int64_t>(word));
}

/// The bucket is chosen by the other half of the hash. A place that was never used has the tag 0.
uint16_t tag_of(const Hash &hash) {
    return std::max<uint16_t>(static_cast<uint16_t>(hash.low), 1);
}

Words words_of(const Hash &hash, const Record &record) {
    Words words{};
    words[hash_high] = hash.high;
    words[time_stored] = word_of(record.time);
    // The sum with the time must not pass below zero: that would be an end that never comes.
    words[holds_for] = word_of(std::max(record.holds_for, microseconds::zero()));
    std::ranges::copy(record.values, words.begin() + first_value);
    words[seal] = hash.low ^ sum_of(words);
    return words;
}

bool holds(const SharedTable::Entry &entry, microseconds now) {
    const uint64_t since = entry.words[time_stored].load(relaxed);
    return since + entry.words[holds_for].load(relaxed) > word_of(now);
}

Words load_words(const SharedTable::Entry &entry) {
    Words words;
    for (size_t i = 0; i < word_count; ++i) {
        words[i] = entry.words[i].load(relaxed);
    }
    return words;
}

void store_words(SharedTable::Entry &entry, const Words &words) {
    for (size_t i = 0; i < word_count; ++i) {
        entry.words[i].store(words[i], relaxed);
    }
}

/// Returns the hash whose seal fits the words. If they are torn, it is none that anybody has.
Hash sealed_hash(const Words &words) {
    return {.low = words[seal] ^ sum_of(words), .high = words[hash_high]};
}

Record record_of(const Words &words) {
    Record record{
        .time = time_of(words[time_stored]), .holds_for = time_of(words[holds_for]), .values = {}};
    std::copy_n(words.begin() + first_value, record.values.size(), record.values.begin());
    return record;
}

/// Returns the entry's record if it is of this hash, is wholly written, and holds at `now`.
std::optional<Record> read(const SharedTable::Entry &entry, const Hash &hash, microseconds now) {
    const Words words = load_words(entry);
    if (words[hash_high] != hash.high || sealed_hash(words).low != hash.low ||
        word_of(now) >= words[time_stored] + words[holds_for]) {
        return std::nullopt;
    }
    return record_of(words);
}

/// Returns the place of a record of the oldest quarter, which the hash chooses by other bits than
/// those of its tag. If the oldest of all made room, clients that come in turns, one more than the
/// bucket has places, would each find its record gone.
size_t one_of_the_oldest(const SharedTable::Entries &entries, const Hash &hash) {
    std::array<std::pair<uint64_t, size_t>, SharedTable::entries_of_bucket>
        aged; // times and their places
    for (size_t place = 0; place < aged.size(); ++place) {
        aged[place] = {entries[place].words[time_stored].load(relaxed), place};
    }
    auto *const chosen = aged.begin() + (hash.low >> 16) % (aged.size() / 4);
    std::ranges::nth_element(aged, chosen);
    return chosen->second;
}

} // namespace

SharedTable::SharedTable(std::span<std::byte> memory) {
    const size_t buckets = memory.size() / (sizeof(Tags) + sizeof(Entries));
    tags_ = {reinterpret_cast<Tags *>(memory.data()), buckets};
    entries_ = {reinterpret_cast<Entries *>(tags_.data() + buckets), buckets};
}

std::optional<Record> SharedTable::find(const Hash &hash, microseconds now) const {
    const size_t bucket = index_of(hash, tags_.size());
    const uint16_t tag = tag_of(hash);
    for (size_t i = 0; i < entries_of_bucket; ++i) {
        if (tags_[bucket][i].load(relaxed) == tag) {
            if (const auto record = read(entries_[bucket][i], hash, now)) {
                return record;
            }
        }
    }
    return std::nullopt;
}

SharedTable::Place SharedTable::place_for(size_t bucket, const Hash &hash, microseconds now) const {
    const Entries &entries = entries_[bucket];
    const auto is_of_hash = [&](const Entry &entry) {
        return entry.words[hash_high].load(relaxed) == hash.high;
    };
    // Mostly there is an entry of the hash. The tags lead to it, so that no other entry is read.
    for (size_t i = 0; i < entries_of_bucket; ++i) {
        if (tags_[bucket][i].load(relaxed) == tag_of(hash) && is_of_hash(entries[i])) {
            return {.index = i, .is_taken = false};
        }
    }
    // The writer of an entry may have been killed before it wrote the tag.
    const auto place_where = [&](const auto &is_such) -> std::optional<Place> {
        const auto *const found = std::ranges::find_if(entries, is_such);
        if (found == entries.end()) {
            return std::nullopt;
        }
        return Place{.index = static_cast<size_t>(found - entries.begin()), .is_taken = false};
    };
    if (const auto own = place_where(is_of_hash)) {
        return *own;
    }
    const auto has_ended = [&](const Entry &entry) { return !holds(entry, now); };
    return place_where(has_ended).value_or(
        Place{.index = one_of_the_oldest(entries, hash), .is_taken = true});
}

bool SharedTable::store(const Hash &hash, const Record &record) {
    const size_t bucket = index_of(hash, tags_.size());
    const Place place = place_for(bucket, hash, record.time);
    write(bucket, place.index, hash, record);
    return !place.is_taken;
}

bool SharedTable::store_if_free(const Hash &hash, const Record &record, microseconds now) {
    const size_t bucket = index_of(hash, tags_.size());
    const Place place = place_for(bucket, hash, now);
    if (!place.is_taken) {
        write(bucket, place.index, hash, record);
    }
    return !place.is_taken;
}

bool SharedTable::has_place(const Hash &hash, microseconds now) const {
    return !place_for(index_of(hash, tags_.size()), hash, now).is_taken;
}

void SharedTable::erase(const Hash &hash) {
    const size_t bucket = index_of(hash, tags_.size());
    for (size_t i = 0; i < entries_of_bucket; ++i) {
        if (entries_[bucket][i].words[hash_high].load(relaxed) == hash.high &&
            sealed_hash(load_words(entries_[bucket][i])) == hash) {
            clear(bucket, i);
        }
    }
}

void SharedTable::write(size_t bucket, size_t index, const Hash &hash, const Record &record) {
    store_words(entries_[bucket][index], words_of(hash, record));
    tags_[bucket][index].store(tag_of(hash), relaxed);
}

void SharedTable::clear(size_t bucket, size_t index) {
    store_words(entries_[bucket][index], {});
    tags_[bucket][index].store(0, relaxed);
}

/// Returns the record of an entry that is wholly written.
std::optional<Record> SharedTable::record_at(size_t bucket, size_t index) const {
    const uint16_t tag = tags_[bucket][index].load(relaxed);
    if (tag == 0) {
        return std::nullopt; // mostly never used; its entry is not even mapped, and is not to be
    }
    const Words words = load_words(entries_[bucket][index]);
    const Hash hash = sealed_hash(words);
    const bool is_whole = tag_of(hash) == tag && index_of(hash, tags_.size()) == bucket;
    return is_whole ? std::optional(record_of(words)) : std::nullopt;
}

size_t SharedTable::count(microseconds now) const {
    const auto is_set = [](const std::atomic<uint16_t> &tag) { return tag.load(relaxed) != 0; };
    return estimate_count(entries_.size(), [&](size_t bucket) -> size_t {
        // The entries of a bucket that was never used are not even mapped, and are not to be.
        if (std::ranges::none_of(tags_[bucket], is_set)) {
            return 0;
        }
        return static_cast<size_t>(std::ranges::count_if(
            entries_[bucket], [&](const Entry &entry) { return holds(entry, now); }));
    });
}

} // namespace rate_limit
