// The keys that are rejected most, out of any number of keys, in little memory that many processes
// share.
//
// Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data
// Streams" (2005), Space-Saving: a key that is not kept yet takes the place of the key with the
// smallest count, and counts on from there. So each key that makes up more than a hundredth of all
// rejections is kept.
//
// Nobody takes a lock, and the work is bounded. The count of a place is one number that only grows.
// The key of a place is sealed, as the entries of SharedTable are: if it is half written, a reader
// takes it for no key, and the next rejection of the key writes it again. Processes that change a
// place at the same time may count a rejection for each other's keys.
#pragma once

#include "rate_limit/text/hash.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace rate_limit {

class TopKeys {
  public:
    static constexpr size_t capacity = 100;
    /// No more bytes of a key are kept. Longer keys whose first bytes are the same count as one.
    static constexpr size_t longest_key = 64;

    /// A key and its rejections since it last took a place. These are all, unless the key has lost
    /// its place to another one before.
    struct Counted {
        std::array<char, longest_key> bytes;
        size_t size;
        bool is_cut; // the key is longer
        uint64_t rejected;

        std::string_view key() const { return {bytes.data(), size}; }
    };
    using Buffer = std::array<Counted, capacity>;

    /// What is kept of the keys.
    enum class Kept : uint64_t {
        keys, // their first bytes
        nothing,
        hashes, // the caller counts hashes of keys instead
    };

    TopKeys() = default;
    /// Uses `memory_size` bytes that are aligned as uint64_t, and are all zeros or were used by
    /// another object of this class.
    explicit TopKeys(std::span<std::byte> memory);

    /// Counts a rejected request of that key, or hash of a key. It does nothing if something else
    /// than `kept` is kept now: then the caller's configuration is an older one.
    void count(const HashSeed &seed, Kept kept, std::string_view key) const;

    /// Reads the keys that were counted as `kept` into `out`, those with the most rejections first,
    /// and returns the part of it that they fill.
    std::span<const Counted> read(Kept kept, Buffer &out) const;

    /// Sets what all processes keep from now on. If that is a change, all keys are dropped.
    void set_kept(Kept kept) const;

  private:
    using Word = std::atomic<uint64_t>;
    // A size beyond the longest key says that the key was cut.
    enum : size_t { seal, base, size, text, word_count = text + longest_key / sizeof(uint64_t) };
    using Words = std::array<uint64_t, word_count>;

    /// What a search reads stands together.
    struct Memory {
        std::array<Word, capacity> hashes; // of the keys
        std::array<Word, capacity> counts;
        std::array<std::array<Word, word_count>, capacity> places;
        Word kept; // a value of Kept
    };

    static Words words_of(uint64_t hash, uint64_t base, Kept kept, std::string_view key);
    /// The seal contains what is kept, because a worker whose configuration is older may be about
    /// to write a key when another one decides that only hashes are kept.
    static uint64_t seal_of(uint64_t hash, Kept kept, const Words &words);

    struct Place {
        size_t index;
        uint64_t count_before;
    };
    std::optional<Place> find(uint64_t hash) const;
    std::optional<Place> take(uint64_t hash) const;
    Words words_at(size_t place) const;
    void write(size_t place, const Words &words) const;

    Memory *memory_ = nullptr;

  public:
    static constexpr size_t memory_size = sizeof(Memory);
};

} // namespace rate_limit
