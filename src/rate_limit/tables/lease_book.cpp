// Why no unit is taken twice, nor by a key that it was not leased for:
//
// A lease lives in one word, its slot's. It holds the lease's name and the units that are left, so
// that one exchange takes units from this lease and from no other. The names of a slot only grow:
// the word that a process has read never comes back with another meaning.
//
// Who changes a word reads it first, then makes sure that the entry is still of its key, and then
// exchanges the word that it has read. Who gives the entry to another key first makes the old
// identity unknown, then replaces both words by ones of new names, and only then writes the new
// identity. So an exchange that succeeds came before that, and changed a lease of the old key.
//
// The identity has two halves. The high one is written last, in place of a number that only this
// process uses, and only once. So the identity is whole only if nobody has interfered since the
// words were replaced. If somebody did, the entry is of no key, until another one replaces it.
//
// A unit counts as taken when the clock is read after the exchange. If the lease has ended by then,
// because the process was stopped meanwhile, the unit is lost.
#include "rate_limit/tables/lease_book.hpp"

#include "rate_limit/memory_order.hpp"
#include "rate_limit/tables/bucket_estimate.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

using std::chrono::microseconds;

// A slot's word, from the highest bit on: whether the lease is still being written; its name, which
// is its end in ticks and a number that tells it from others of that end; and the units left.
constexpr unsigned units_bits = 18;
constexpr unsigned number_bits = 5;
constexpr microseconds tick{256}; // 40 bits of ticks are 8 years
constexpr uint64_t being_written = uint64_t{1} << 63;
static_assert(LeaseBook::most_units == (uint64_t{1} << units_bits) - 1);

uint64_t to_number(microseconds time) {
    return static_cast<uint64_t>(time.count());
}

microseconds to_time(uint64_t number) {
    return microseconds(static_cast<int64_t>(number));
}

/// Rounds down, so that a lease never ends late.
uint64_t ticks_of(microseconds time) {
    return to_number(time) / to_number(tick);
}

uint64_t name_of(uint64_t word) {
    return (word & ~being_written) >> units_bits;
}

uint64_t units_of(uint64_t word) {
    return word & LeaseBook::most_units;
}

uint64_t end_tick_of(uint64_t word) {
    return name_of(word) >> number_bits;
}

uint64_t word_of(uint64_t name, uint64_t units) {
    return name << units_bits | units;
}

bool has_ended(uint64_t word, microseconds now) {
    return end_tick_of(word) <= ticks_of(now);
}

bool is_usable(uint64_t word, uint64_t units, microseconds now) {
    return (word & being_written) == 0 && units_of(word) >= units && !has_ended(word, now);
}

bool has_lease(const LeaseBook::Entry &entry, microseconds now) {
    return std::ranges::any_of(entry.words, [&](const std::atomic<uint64_t> &word) {
        return !has_ended(word.load(relaxed), now);
    });
}

/// For so long after its end a lease keeps its entry while units are left: the worker that fetched
/// it returns them when its timer comes, which a busy worker sees late. It is bounded, for a worker
/// may have been killed.
constexpr microseconds longest_wait_for_return = std::chrono::milliseconds{100};

bool is_to_be_kept(uint64_t word, microseconds now) {
    return !has_ended(word, now) ||
           (units_of(word) > 0 && !has_ended(word, now - longest_wait_for_return));
}

bool is_to_be_kept(const LeaseBook::Entry &entry, microseconds now) {
    return std::ranges::any_of(entry.words, [&](const std::atomic<uint64_t> &word) {
        return is_to_be_kept(word.load(relaxed), now);
    });
}

/// Whether a lease may take the place of the one that the word tells of.
bool is_free(uint64_t word, microseconds now) {
    return has_ended(word, now) || (units_of(word) == 0 && (word & being_written) == 0);
}

/// The demand of a key: how much was asked for in the current interval and in the one before. They
/// have numbers, for an entry may not be touched for long. The number begins anew after 2^18
/// intervals, so that an old count may once be taken for a new one: leases are asked for in vain.
struct DemandWord {
    static constexpr unsigned interval_bits = 18;
    static constexpr unsigned requests_bits = 3;
    static constexpr unsigned demand_bits = 20;
    static_assert(Demand::most_counted == (1U << requests_bits) - 1);
    static_assert(interval_bits + 2 * requests_bits + 2 * demand_bits == 64);

    uint64_t interval;
    uint64_t requests;
    uint64_t requests_before;
    uint64_t units;
    uint64_t units_before;

    static DemandWord unpack(uint64_t word) {
        const auto next = [&word](unsigned bits) {
            const uint64_t number = word & ((uint64_t{1} << bits) - 1);
            word >>= bits;
            return number;
        };
        DemandWord demand{};
        demand.units_before = next(demand_bits);
        demand.units = next(demand_bits);
        demand.requests_before = next(requests_bits);
        demand.requests = next(requests_bits);
        demand.interval = next(interval_bits);
        return demand;
    }

    uint64_t pack() const {
        uint64_t word = interval;
        word = word << requests_bits | requests;
        word = word << requests_bits | requests_before;
        word = word << demand_bits | units;
        return word << demand_bits | units_before;
    }

    void begin(uint64_t number) {
        number &= (1U << interval_bits) - 1;
        if (number == interval) {
            return;
        }
        const bool is_next = number == ((interval + 1) & ((1U << interval_bits) - 1));
        requests_before = is_next ? requests : 0;
        units_before = is_next ? units : 0;
        requests = units = 0;
        interval = number;
    }

    void add(uint64_t more_units) {
        requests = std::min<uint64_t>(requests + 1, Demand::most_counted);
        units = std::min<uint64_t>(units + std::min(more_units, LeaseBook::most_units),
                                   (1U << demand_bits) - 1);
    }
};

} // namespace

LeaseBook::LeaseBook(std::span<std::byte> memory)
    : header_(reinterpret_cast<Header *>(memory.data())) {
    memory = memory.subspan(sizeof(Header));
    buckets_ = {reinterpret_cast<Bucket *>(memory.data()), memory.size() / sizeof(Bucket)};
}

LeaseBook::Bucket &LeaseBook::bucket_of(const Hash &identity) const {
    return buckets_[index_of(identity, buckets_.size())];
}

std::optional<LeaseBook::Account> LeaseBook::find(const Hash &identity) const {
    for (Entry &entry : bucket_of(identity)) {
        const Account account(entry, identity);
        if (account.is_current()) {
            return account;
        }
    }
    return std::nullopt;
}

std::optional<LeaseBook::Account> LeaseBook::find_or_make(const Hash &identity,
                                                          microseconds now) const {
    auto account = find(identity);
    if (!account) {
        const auto keep_rank = [&](const Entry &entry) {
            return is_to_be_kept(entry, now) ? UINT64_MAX : entry.last_seen.load(relaxed);
        };
        Entry &oldest = *std::ranges::min_element(bucket_of(identity), {}, keep_rank);
        if (replace(oldest, identity, now)) {
            account = Account(oldest, identity);
        }
    }
    if (account) {
        account->entry_->last_seen.store(to_number(now), relaxed);
    }
    return account;
}

/// Gives the entry to another key. Returns false if it is to be kept, or if another process was
/// faster.
bool LeaseBook::replace(Entry &entry, const Hash &identity, microseconds now) const {
    std::array<uint64_t, Entry::leases> words{};
    for (size_t slot = 0; slot < words.size(); ++slot) {
        words[slot] = entry.words[slot].load(acquire);
        if (is_to_be_kept(words[slot], now)) {
            return false;
        }
    }
    uint64_t low = entry.identity_low.load(acquire);
    uint64_t high = entry.identity_high.load(acquire);
    uint64_t unknown = header_->last_replacement.fetch_add(1, relaxed) + 1;
    if (!entry.identity_high.compare_exchange_strong(high, unknown, acquire_release)) {
        return false;
    }
    for (size_t slot = 0; slot < words.size(); ++slot) {
        const uint64_t name = std::max(name_of(words[slot]) + 1, ticks_of(now) << number_bits);
        if (!entry.words[slot].compare_exchange_strong(words[slot], word_of(name, 0),
                                                       acquire_release)) {
            return false;
        }
    }
    entry.demand.store(0, relaxed);
    entry.next_fetch.store(0, relaxed);
    return entry.identity_low.compare_exchange_strong(low, identity.low, acquire_release) &&
           entry.identity_high.compare_exchange_strong(unknown, identity.high, acquire_release);
}

microseconds LeaseBook::Taken::end() const {
    return tick * (name >> number_bits);
}

size_t LeaseBook::count(microseconds now) const {
    return estimate_count(buckets_.size(), [&](size_t bucket) {
        return static_cast<size_t>(std::ranges::count_if(
            buckets_[bucket], [&](const Entry &entry) { return has_lease(entry, now); }));
    });
}

bool LeaseBook::Account::is_current() const {
    return entry_->identity_low.load(acquire) == identity_.low &&
           entry_->identity_high.load(acquire) == identity_.high;
}

Demand LeaseBook::Account::count(uint64_t units, microseconds interval, microseconds now) const {
    const uint64_t length = to_number(interval);
    const uint64_t time = to_number(now);
    uint64_t word = entry_->demand.load(relaxed);
    DemandWord demand{};
    do {
        demand = DemandWord::unpack(word);
        demand.begin(time / length);
        demand.add(units);
    } while (!entry_->demand.compare_exchange_weak(word, demand.pack(), relaxed));
    const uint64_t left_of_before = length - time % length;
    return {.requests = std::min(demand.requests + demand.requests_before * left_of_before / length,
                                 Demand::most_counted),
            .units = demand.units + demand.units_before * left_of_before / length};
}

std::optional<LeaseBook::Taken> LeaseBook::Account::take(uint64_t units, microseconds now,
                                                         const Machine &machine) const {
    const auto name_in = [&](size_t slot) { return name_of(entry_->words[slot].load(relaxed)); };
    const size_t ends_first = name_in(0) <= name_in(1) ? 0 : 1;
    const auto taken = take_from(ends_first, units, now, machine);
    return taken ? taken : take_from(1 - ends_first, units, now, machine);
}

std::optional<LeaseBook::Taken> LeaseBook::Account::take_from(size_t slot, uint64_t units,
                                                              microseconds now,
                                                              const Machine &machine) const {
    uint64_t word = entry_->words[slot].load(acquire);
    while (is_usable(word, units, now) && is_current()) {
        const int64_t receipt = entry_->details[slot].receipt.load(acquire);
        if (entry_->words[slot].compare_exchange_weak(word, word - units, acquire_release,
                                                      acquire)) {
            const microseconds at = machine.boot_now();
            if (has_ended(word, at)) {
                return std::nullopt;
            }
            return Taken{
                .units = units, .at = at, .receipt = receipt, .slot = slot, .name = name_of(word)};
        }
    }
    return std::nullopt;
}

bool LeaseBook::Account::give_back(const Taken &taken, microseconds now) const {
    std::atomic<uint64_t> &slot = entry_->words[taken.slot];
    uint64_t word = slot.load(acquire);
    while (name_of(word) == taken.name && !has_ended(word, now) && is_current()) {
        if (slot.compare_exchange_weak(word, word + taken.units, acquire_release, acquire)) {
            return true;
        }
    }
    return false;
}

/// Takes all units of the first lease for whose word that is wanted.
template <typename IsWanted>
std::optional<LeaseBook::Taken> LeaseBook::Account::take_rest(const IsWanted &is_wanted) const {
    for (size_t slot = 0; slot < Entry::leases; ++slot) {
        uint64_t word = entry_->words[slot].load(acquire);
        if (units_of(word) == 0 || (word & being_written) != 0 || !is_wanted(word) ||
            !is_current()) {
            continue;
        }
        const int64_t receipt = entry_->details[slot].receipt.load(acquire);
        if (entry_->words[slot].compare_exchange_strong(word, word_of(name_of(word), 0),
                                                        acquire_release)) {
            return Taken{.units = units_of(word),
                         .at = microseconds{0},
                         .receipt = receipt,
                         .slot = slot,
                         .name = name_of(word)};
        }
    }
    return std::nullopt;
}

std::optional<LeaseBook::Taken> LeaseBook::Account::take_ended(microseconds now) const {
    return take_rest([&](uint64_t word) { return has_ended(word, now); });
}

std::optional<LeaseBook::Taken> LeaseBook::Account::take_all() const {
    return take_rest([](uint64_t) { return true; });
}

LeaseBook::Account::Holding LeaseBook::Account::holding(microseconds now) const {
    Holding holding{};
    uint64_t last_name = 0;
    for (size_t slot = 0; slot < Entry::leases; ++slot) {
        const uint64_t word = entry_->words[slot].load(acquire);
        holding.has_room = holding.has_room || is_free(word, now);
        if (!is_usable(word, 0, now) || !is_current()) {
            continue;
        }
        holding.units += units_of(word);
        if (name_of(word) > last_name) {
            const Entry::Details &details = entry_->details[slot];
            last_name = name_of(word);
            holding.end = tick * end_tick_of(word);
            holding.remaining = details.remaining.load(relaxed);
            holding.next_unit = to_time(details.next_unit.load(relaxed));
            holding.reset = to_time(details.reset.load(relaxed));
        }
    }
    return holding;
}

bool LeaseBook::Account::claim_fetch(microseconds deadline, microseconds now) const {
    uint64_t known = entry_->next_fetch.load(relaxed);
    return known <= to_number(now) &&
           entry_->next_fetch.compare_exchange_strong(known, to_number(deadline), relaxed);
}

void LeaseBook::Account::end_fetch(microseconds deadline, microseconds next_fetch) const {
    uint64_t known = to_number(deadline);
    entry_->next_fetch.compare_exchange_strong(known, to_number(next_fetch), relaxed);
}

bool LeaseBook::Account::add(const Lease &lease, microseconds now) const {
    const uint64_t end = ticks_of(lease.end);
    if (lease.units > most_units || lease.end <= now) {
        return false;
    }
    for (size_t slot = 0; slot < Entry::leases; ++slot) {
        uint64_t word = entry_->words[slot].load(acquire);
        Entry::Details &details = entry_->details[slot];
        int64_t receipt = details.receipt.load(acquire);
        const uint64_t name = std::max(end << number_bits, name_of(word) + 1);
        const bool has_name = name >> number_bits == end;
        uint64_t reserved = word_of(name, 0) | being_written;
        if (!has_name || !is_free(word, now) || !is_current() ||
            !entry_->words[slot].compare_exchange_strong(word, reserved, acquire_release)) {
            continue;
        }
        // Without success a process that was stopped here has gone on, and both leave the lease
        // out.
        if (!details.receipt.compare_exchange_strong(receipt, lease.receipt, acquire_release)) {
            return false;
        }
        details.remaining.store(lease.remaining, relaxed);
        details.next_unit.store(to_number(lease.next_unit), relaxed);
        details.reset.store(to_number(lease.reset), relaxed);
        return entry_->words[slot].compare_exchange_strong(reserved, word_of(name, lease.units),
                                                           acquire_release);
    }
    return false;
}

} // namespace rate_limit
