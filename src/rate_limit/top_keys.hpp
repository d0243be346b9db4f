// The keys that are rejected most, out of any number, in little memory that many processes share.
//
// Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data
// Streams" (2005), Space-Saving: a key that is not among those kept takes the place of the one with
// the smallest count, and goes on from there. So whatever makes up more than a hundredth of all
// rejections is kept.
//
// Nobody takes a lock, and work is bounded. What a place is worth is one number that only grows;
// which key has it is sealed, as entries of SharedTable are: a reader who meets a place that is
// half written, by a process that still writes, was killed while it wrote, or wrote at the same
// time as another, takes it for none, and the next rejection of its key mends it. Processes that
// change a place at the same time may count a rejection for the other's key.
#pragma once

#include "hash.hpp"

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
    /// Bytes of a key, of which no more is kept: keys that begin with the same ones count as one.
    static constexpr size_t longest_key = 64;

    /// A key and its rejections since it was last taken in: all, if it was never given up.
    struct Counted {
        std::array<char, longest_key> bytes;
        size_t size;
        uint64_t rejected;

        std::string_view key() const { return {bytes.data(), size}; }
    };
    using Buffer = std::array<Counted, capacity>;

    /// What is kept of the keys.
    enum class Kept : uint64_t {
        keys, // their first bytes
        nothing,
        hashes, // which the caller counts in their place
    };

    TopKeys() = default;
    /// Over `memory_size` bytes, aligned as uint64_t, that are all zeros at first, or that another
    /// one was over.
    explicit TopKeys(std::span<std::byte> memory);

    /// Counts a rejected request of that key, or hash of a key. Does nothing if something else than
    /// `kept` is kept: then the caller's configuration is an older one.
    void count(const HashSeed &seed, Kept kept, std::string_view key) const;

    /// Returns those that were counted as `kept`, most rejections first: their part of `out`.
    std::span<const Counted> read(Kept kept, Buffer &out) const;

    /// Sets what is kept from now on, whoever counts. If that changes, what was kept before goes.
    void set_kept(Kept kept) const;

  private:
    using Word = std::atomic<uint64_t>;
    enum : size_t { seal, base, size, text, word_count = text + longest_key / sizeof(uint64_t) };
    using Words = std::array<uint64_t, word_count>;

    /// What is looked through stands together.
    struct Memory {
        std::array<Word, capacity> hashes; // of the keys
        std::array<Word, capacity> counts;
        std::array<std::array<Word, word_count>, capacity> places;
        Word kept; // a value of Kept
    };

    static Words words_of(uint64_t hash, uint64_t base, Kept kept, std::string_view key);
    /// What is kept is in the seal, too: a worker whose configuration is older may be about to
    /// write a key when another one decides that only hashes are kept.
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
