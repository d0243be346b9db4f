// Tables in shared memory, of which other processes have written what they like before, and still
// write: stores that are cut off, that come late, and that get between one another, word by word.
// A record is found whole, under its own hash, or not at all.
//
// Memory that says of itself that it is whole, though no table wrote it, is beyond the promise.

#include "rate_limit/tables/deny_cache.hpp"
#include "rules.hpp"
#include "targets.hpp"
#include "unit/rate_limit/tables/shared_table_test.hpp"

#include <array>
#include <deque>
#include <vector>

namespace fuzz {
namespace {

using rate_limit::DenyCache;
using rate_limit::Hash;
using rate_limit::OneBucket;
using rate_limit::Record;
using rate_limit::SharedTable;
using rate_limit::Verdict;
using std::chrono::microseconds;

constexpr size_t hash_count = 40; // more than a bucket has room for

/// As if by the keyed hash; some agree in what chooses the tag.
Hash take_hash(Input &input, size_t &number) {
    number = input.number(0, hash_count - 1);
    Hash hash = rate_limit::hash(number + 1);
    hash.low = number % 4 == 0 ? hash.low & ~uint64_t{0xffff} : hash.low;
    return hash;
}

struct Memory {
    alignas(SharedTable::Tags) std::array<std::byte, sizeof(SharedTable::Tags)> deny_header;
    OneBucket bucket;

    std::span<std::byte> all() { return std::as_writable_bytes(std::span(this, 1)); }
};

/// Any bytes, or the zeros that a table begins with.
void fill(Memory &memory, std::string_view pattern) {
    size_t i = 0;
    for (std::byte &byte : memory.all()) {
        byte = pattern.empty() ? std::byte{0} : std::byte(pattern[i++ % pattern.size()]);
    }
}

/// What a process has yet to write, in the units that a processor writes at once.
struct Write {
    size_t at;
    std::vector<std::byte> bytes;
};
using Writes = std::deque<Write>;

/// What a store would change.
template <typename Store>
Writes writes_of(Memory &memory, const Store &store) {
    Memory after;
    std::ranges::copy(memory.all(), after.all().begin());
    store(after);
    constexpr size_t tags_begin = sizeof(Memory::deny_header);
    constexpr size_t tags_end = tags_begin + sizeof(SharedTable::Tags);
    Writes writes;
    for (size_t at = 0, size = 0; at < sizeof(Memory); at += size) {
        size = at >= tags_begin && at < tags_end ? sizeof(uint16_t) : sizeof(uint64_t);
        const auto bytes = after.all().subspan(at, size);
        if (!std::ranges::equal(bytes, memory.all().subspan(at, size))) {
            writes.push_back({.at = at, .bytes = {bytes.begin(), bytes.end()}});
        }
    }
    return writes;
}

/// One of the next writes of a process: processors may change their order.
void write_one(Memory &memory, Writes &writes, size_t which) {
    if (!writes.empty()) {
        const auto write = writes.begin() + static_cast<ptrdiff_t>(which % writes.size());
        std::ranges::copy(write->bytes, memory.all().subspan(write->at).begin());
        writes.erase(write);
    }
}

/// What was ever stored for a hash.
template <typename Stored>
using Shadow = std::array<std::vector<Stored>, hash_count>;

/// The table of records, and all that other processes are about to write to it.
class Records {
  public:
    Records(Input &input, Memory &memory) : input_(input), memory_(memory) {}

    void step() {
        static constexpr void (Records::*steps[])() = {
            &Records::find,  &Records::store,     &Records::begin_store,
            &Records::write, &Records::write_all, &Records::kill,
        };
        (this->*input_.one_of(steps))();
    }

  private:
    SharedTable table() { return memory_.bucket.table(); }

    Record take_record() {
        Record record{.time = microseconds(input_.number(0, 1000)),
                      .holds_for = microseconds(input_.number(0, 1000)),
                      .values = {}};
        if (input_.flag()) { // else like others, in all but few words
            record.time += microseconds(input_.number(0, INT64_MAX / 4));
            record.holds_for += microseconds(input_.number(0, INT64_MAX / 4));
        }
        record.values[input_.number(0, record.values.size() - 1)] = input_.number(0, UINT64_MAX);
        return record;
    }

    void find() {
        size_t number = 0;
        const Hash hash = take_hash(input_, number);
        const microseconds now(input_.number(0, 2000));
        const auto found = table().find(hash, now);
        const auto &stored = stored_[number];
        require(!found || std::ranges::find(stored, *found) != stored.end(),
                "what is found was stored, for that hash");
        require(!found || now < found->time + found->holds_for, "and it still holds");
    }

    void store() {
        size_t number = 0;
        const Hash hash = take_hash(input_, number);
        const Record record = take_record();
        stored_[number].push_back(record);
        table().store(hash, record);
        require(record.holds_for == microseconds{0} || table().find(hash, record.time) == record,
                "what was just stored is found while it holds");
    }

    void begin_store() {
        size_t number = 0;
        const Hash hash = take_hash(input_, number);
        const Record record = take_record();
        stored_[number].push_back(record);
        const auto store = [&](Memory &memory) { memory.bucket.table().store(hash, record); };
        writing_[input_.number(0, 1)] = writes_of(memory_, store);
    }

    void write() {
        Writes &writes = writing_[input_.number(0, 1)];
        write_one(memory_, writes, input_.number(0, 15));
    }

    void write_all() {
        Writes &writes = writing_[input_.number(0, 1)];
        while (!writes.empty()) {
            write_one(memory_, writes, 0);
        }
    }

    void kill() { writing_[input_.number(0, 1)].clear(); }

    Input &input_;
    Memory &memory_;
    Writes writing_[2];
    Shadow<Record> stored_;
};

struct Denial {
    Verdict verdict;
    DenyCache::CheckTimes times;
};

Verdict take_denial(Input &input) {
    const auto take_time = [&input] { return microseconds(input.number(0, 1'000'000'000)); };
    return {.decision = rate_limit::Decision::denied,
            .remaining = input.number(0, rate_limit::largest_number),
            .retry_after = take_time(),
            .next_unit = take_time(),
            .reset = take_time()};
}

/// The table of denials. `is_whole`: its memory began as it should.
class Denials {
  public:
    Denials(Input &input, Memory &memory, bool is_whole)
        : input_(input), table_(memory.all()), is_whole_(is_whole) {}

    void step() { input_.flag() ? find() : add(); }

  private:
    void add() {
        size_t number = 0;
        const Hash hash = take_hash(input_, number);
        Denial denial{.verdict = take_denial(input_), .times = {}};
        denial.times.asked = microseconds(input_.number(0, 1'000'000'000));
        denial.times.answered = denial.times.asked + microseconds(input_.number(0, 1'000'000));
        table_.add(hash, denial.verdict, denial.verdict.retry_after, denial.times);
        stored_[number].push_back(denial);
    }

    void find() {
        size_t number = 0;
        const Hash hash = take_hash(input_, number);
        const microseconds now(input_.number(0, 2'000'000'000));
        const microseconds longest(input_.number(1, 1'000'000'000));
        const auto found = table_.find(hash, now, longest);
        if (!found) {
            return;
        }
        require(!is_whole_ || table_.may_hold(now), "where something is found, something may be");
        const auto is_of = [&](const Denial &denial) {
            return is_within(*found, denial, now) && now - denial.times.asked < longest;
        };
        require(std::ranges::any_of(stored_[number], is_of),
                "a denial is found while Redis denies, and tells no other times");
    }

    static bool is_within(const Verdict &found, const Denial &denial, microseconds now) {
        const microseconds end = denial.times.asked + denial.verdict.retry_after;
        const microseconds latest = denial.times.answered - now;
        constexpr microseconds soon{1};
        // counted down by a clock that may differ in its rate
        const auto is_left_of = [&](microseconds left, microseconds time) {
            const microseconds drift = (now - denial.times.asked) / 1000 + soon;
            return left >= microseconds{0} && left <= std::max(time + latest + drift, soon);
        };
        return now >= denial.times.asked && now < end &&
               found.decision == rate_limit::Decision::denied &&
               found.remaining == denial.verdict.remaining &&
               is_left_of(found.retry_after, denial.verdict.retry_after) &&
               is_left_of(found.next_unit, denial.verdict.next_unit) &&
               is_left_of(found.reset, denial.verdict.reset) && found.retry_after.count() > 0 &&
               found.next_unit.count() > 0;
    }

    Input &input_;
    DenyCache table_;
    bool is_whole_;
    Shadow<Denial> stored_;
};

} // namespace

void shared_tables(Input input) {
    constexpr int most_steps = 400;
    const std::string_view pattern = input.text(255);
    Memory memory;
    fill(memory, pattern);
    if (input.flag()) {
        Records records(input, memory);
        for (int i = 0; i < most_steps && !input.empty(); ++i) {
            records.step();
        }
    } else {
        Denials denials(input, memory, pattern.empty());
        for (int i = 0; i < most_steps && !input.empty(); ++i) {
            denials.step();
        }
    }
}

} // namespace fuzz
