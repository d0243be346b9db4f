#include "protocol.hpp"

#include "canonical.hpp"
#include "rate_limit/rule/leasing.hpp"

#include <algorithm>
#include <chrono>
#include <span>

namespace protocol {

namespace {

using std::chrono::microseconds;
using Kind = Step::Kind;
using Stage = Fetch::Stage;

constexpr microseconds tick{1'000};
constexpr microseconds slow_tick{999}; // by the slowest clock that a host may have

Units plus(Units units, int more) {
    return static_cast<Units>(units + more);
}

/// All that may come after one world.
class NextSteps {
  public:
    NextSteps(const Setting &setting, const Rule &rule, const World &world,
              std::vector<Successor> &successors)
        : setting_(setting), rule_(rule), world_(world), successors_(successors) {}

    void find() {
        let_time_pass();
        ask_redis();
        lose_key();
        for (size_t i = 0; i < setting_.fetches; ++i) {
            if (world_.fetches[i].stage == Stage::asked) {
                go_on_with_asked(i);
            } else if (world_.fetches[i].stage == Stage::answered) {
                go_on_with_answered(i);
            }
        }
        for (size_t i = 0; i < setting_.returns; ++i) {
            if (world_.returns[i].units > 0) {
                go_on_with_return(i);
            }
        }
        for (uint8_t host = 0; host < setting_.hosts; ++host) {
            ask_for_lease(host);
            crash(host);
            for (size_t slot = 0; slot < world_.books[host].size(); ++slot) {
                take_of_lease(host, slot);
                give_back(host, slot);
                close(host, slot);
            }
        }
    }

  private:
    bool has(Flaw flaw) const { return setting_.flaw == flaw; }

    void add(const Step &step, World world, bool keeps_promise = true) {
        make_canonical(world, setting_, rule_);
        successors_.push_back({step, world, keeps_promise});
    }

    void let_time_pass() {
        const auto come_nearer = [](Time &time) {
            time = std::max(static_cast<Time>(time - 1), over);
        };
        World world = world_;
        rule_.pass(world.key, world.granted);
        for (Book &book : world.books) {
            for (Lease &lease : book) {
                come_nearer(lease.end);
                come_nearer(lease.receipt);
            }
        }
        for (Fetch &fetch : world.fetches) {
            if (!(fetch.stage == Stage::answered && has(Flaw::end_from_reply))) {
                come_nearer(fetch.time);
            }
            come_nearer(fetch.receipt);
        }
        for (Return &message : world.returns) {
            come_nearer(message.receipt);
        }
        add({.kind = Kind::pass}, world);
    }

    // --- Redis and ordinary requests

    void ask_redis() {
        World world = world_;
        if (!rule_.charge(world.key)) {
            return;
        }
        World denied = world;
        send(denied, {.units = 1, .receipt = rule_.receipt(world.key), .is_debit = false});
        add({.kind = Kind::charge}, denied);
        const bool keeps_promise = rule_.grant(world.granted, world.key, world.quotas);
        add({.kind = Kind::grant}, world, keeps_promise);
    }

    void lose_key() {
        if (setting_.key_may_be_lost && world_.quotas == 1) {
            World world = world_;
            world.key = Key();
            world.key.since_multiple = world_.key.since_multiple;
            world.quotas = 2;
            add({.kind = Kind::lose_key}, world);
        }
    }

    // --- fetching a lease

    void ask_for_lease(uint8_t host) {
        World world = world_;
        const auto room = std::span(world.fetches).first(setting_.fetches);
        const auto fetch = std::ranges::find(room, Stage::none, &Fetch::stage);
        if (fetch != room.end()) {
            *fetch = {.stage = Stage::asked, .host = host, .time = 0, .units = 0, .receipt = 0};
            add({.kind = Kind::ask, .host = host}, world);
        }
    }

    void go_on_with_asked(size_t index) {
        const Fetch &fetch = world_.fetches[index];
        lose(index);
        if (fetch.host != Fetch::nobody) {
            World world = world_;
            world.fetches[index].host = Fetch::nobody;
            add({.kind = Kind::give_up, .host = fetch.host}, world);
        }
        const auto longest = static_cast<Time>(setting_.numbers.lease);
        for (Time time = setting_.shorter_leases ? 1 : longest; time <= longest; ++time) {
            for (Units units = 1; units <= setting_.most_leased; ++units) {
                decide(index, units, time);
            }
        }
    }

    void decide(size_t index, Units units, Time longest) {
        World world = world_;
        Fetch &fetch = world.fetches[index];
        const Leased leased = rule_.lease(world.key, units, longest);
        if (leased.units == 0) {
            return;
        }
        if (has(Flaw::debit_after_use)) {
            world.key = world_.key;
        }
        const Step step = {.kind = Kind::decide,
                           .host = fetch.host,
                           .units = units,
                           .usable_for = leased.usable_for};
        const Time asked = has(Flaw::end_from_reply) ? Time{0} : fetch.time;
        fetch.stage = Stage::answered;
        fetch.time = end_of_lease(asked, longest, leased.usable_for);
        fetch.units = units;
        fetch.receipt = leased.receipt;
        add(step, world);
    }

    /// In how many ticks the host's clock says that the lease has ended.
    Time end_of_lease(Time asked, Time longest, Time usable_for) const {
        const microseconds length = has(Flaw::slow_clock) ? tick / 2 : slow_tick;
        const rate_limit::LeaseClaim claim{
            .lease_time = longest * tick, .asked = asked * length, .claimed_until{}};
        microseconds end = rate_limit::end_of_lease(
            claim, {.units = 0, .usable_for = usable_for * tick, .receipt = 0});
        if (has(Flaw::no_drift)) {
            end = claim.asked + usable_for * tick;
        }
        const auto ticks = std::max(end, microseconds(0)) / length;
        return static_cast<Time>(ticks * length < end ? ticks + 1 : ticks);
    }

    /// If the lease has ended meanwhile, or the book has no room for it, it is returned.
    void go_on_with_answered(size_t index) {
        const Fetch &fetch = world_.fetches[index];
        lose(index);
        const Step step = {.kind = Kind::receive, .host = fetch.host, .units = fetch.units};
        World received = world_;
        received.fetches[index] = {};
        bool is_in_book = false;
        for (size_t slot = 0; slot < received.books[fetch.host].size(); ++slot) {
            World world = received;
            if (put(world, fetch, slot)) {
                add(step, world);
                is_in_book = true;
            }
        }
        if (!is_in_book) {
            send(received, {.units = fetch.units, .receipt = fetch.receipt, .is_debit = false});
            add(step, received);
        }
    }

    /// Puts a lease into the book, if it has not ended, and if the slot is free.
    bool put(World &world, const Fetch &fetch, size_t slot) const {
        Lease &lease = world.books[fetch.host][slot];
        if (fetch.time == 0 && !has(Flaw::use_past_end)) {
            return false;
        }
        if (has(Flaw::merged_leases) && lease.units > 0) {
            lease.units = plus(lease.units, fetch.units);
            lease.end = std::max(lease.end, fetch.time);
            return true;
        }
        if (lease.units > 0 && lease.end > 0) {
            return false;
        }
        const Lease before = lease;
        lease = {.units = fetch.units, .undecided = 0, .end = fetch.time, .receipt = fetch.receipt};
        if (has(Flaw::give_back_to_next)) {
            lease.undecided = before.undecided;
        } else if (before.undecided > 0) { // they cannot be given back to it any more
            send(world, {.units = before.undecided, .receipt = before.receipt, .is_debit = false});
        }
        return true;
    }

    void lose(size_t index) {
        World world = world_;
        world.fetches[index] = {};
        add({.kind = Kind::lose, .host = world_.fetches[index].host}, world);
    }

    // --- using a lease

    void take_of_lease(uint8_t host, size_t slot) {
        World world = world_;
        Lease &lease = world.books[host][slot];
        if (lease.units == 0 || (lease.end == 0 && !has(Flaw::use_past_end))) {
            return;
        }
        lease.units = plus(lease.units, -1);
        add({.kind = Kind::drop, .host = host}, world);

        World denied = world;
        denied.books[host][slot].undecided = plus(lease.undecided, 1);
        add({.kind = Kind::take, .host = host}, denied);

        if (has(Flaw::debit_after_use)) {
            send(world, {.units = 1, .receipt = lease.receipt, .is_debit = true});
        }
        const bool keeps_promise = rule_.grant(world.granted, world.key, world.quotas);
        add({.kind = Kind::use, .host = host}, world, keeps_promise);
    }

    void give_back(uint8_t host, size_t slot) {
        World world = world_;
        Lease &lease = world.books[host][slot];
        if (lease.undecided == 0) {
            return;
        }
        lease.undecided = plus(lease.undecided, -1);
        if (lease.end > 0) {
            lease.units = plus(lease.units, 1);
        } else {
            send(world, {.units = 1, .receipt = lease.receipt, .is_debit = false});
        }
        add({.kind = Kind::give_back, .host = host}, world);
    }

    /// Because the lease has ended, or because the worker ends that has fetched it.
    void close(uint8_t host, size_t slot) {
        World world = world_;
        Lease &lease = world.books[host][slot];
        const Units rest = lease.units;
        if (rest == 0) {
            return;
        }
        if (!has(Flaw::return_without_close)) {
            lease.units = 0;
        }
        send(world, {.units = rest, .receipt = lease.receipt, .is_debit = false});
        add({.kind = Kind::close, .host = host, .units = rest}, world);
    }

    /// What a host has sent may still be decided.
    void crash(uint8_t host) {
        World world = world_;
        world.books[host] = {};
        for (Fetch &fetch : world.fetches) {
            if (fetch.stage != Stage::none && fetch.host == host) {
                fetch.host = Fetch::nobody;
            }
        }
        add({.kind = Kind::crash, .host = host}, world);
    }

    // --- returns

    /// If no more messages may be on their way, this one is lost.
    void send(World &world, const Return &message) const {
        const auto room = std::span(world.returns).first(setting_.returns);
        const auto none = std::ranges::find(room, 0, &Return::units);
        if (none != room.end()) {
            *none = message;
        }
    }

    void go_on_with_return(size_t index) {
        const Return &message = world_.returns[index];
        World world = world_;
        world.returns[index] = {};
        add({.kind = Kind::lose_return, .units = message.units}, world);
        if (has(Flaw::return_twice)) {
            world.returns[index] = message;
        }
        if (message.is_debit) {
            rule_.charge(world.key);
        } else {
            rule_.give_back(world.key, message.units, message.receipt);
        }
        add({.kind = Kind::arrive, .units = message.units}, world);
    }

    const Setting &setting_;
    const Rule &rule_;
    const World &world_;
    std::vector<Successor> &successors_;
};

} // namespace

void Protocol::add_successors(const World &world, std::vector<Successor> &successors) const {
    NextSteps(setting_, *rule_, world, successors).find();
}

} // namespace protocol
