#include "canonical.hpp"

#include <algorithm>
#include <numeric>
#include <ranges>
#include <span>

namespace protocol {

namespace {

template <typename T>
bool is_less(const T &one, const T &other) {
    static_assert(std::has_unique_object_representations_v<T>);
    return std::memcmp(&one, &other, sizeof(T)) < 0;
}

void sort(std::ranges::random_access_range auto &&all) {
    std::ranges::sort(all, [](const auto &one, const auto &other) { return is_less(one, other); });
}

/// A return depends only on how far the receipt lies beyond what was moved back since.
void settle(Time &receipt, const Key &key, const Rule &rule) {
    receipt = rule.is_over(key, receipt) ? over : static_cast<Time>(receipt - key.moved_back);
}

/// Whether nothing can come of the lease any more, or of the fetch that brings it.
bool is_void(Time end, Time receipt, Flaw flaw) {
    const bool can_be_used = end > 0 || flaw == Flaw::use_past_end;
    return !can_be_used && receipt == over && flaw != Flaw::give_back_to_next;
}

void settle(Lease &lease, const Key &key, const Setting &setting, const Rule &rule) {
    settle(lease.receipt, key, rule);
    lease.end = std::max<Time>(lease.end, 0);
    if (lease.units + lease.undecided == 0 || is_void(lease.end, lease.receipt, setting.flaw)) {
        lease = {};
    }
}

void settle(Fetch &fetch, const Key &key, const Setting &setting, const Rule &rule) {
    switch (fetch.stage) {
    case Fetch::Stage::none:
        fetch = {};
        break;
    case Fetch::Stage::asked: {
        // No lease lasts that was asked for so long ago, not even by a clock of half the speed.
        const int longest = setting.numbers.lease * (setting.flaw == Flaw::slow_clock ? 2 : 1);
        fetch.time = fetch.host == Fetch::nobody
                         ? Time{0}
                         : std::max(fetch.time, static_cast<Time>(-1 - longest));
        fetch.receipt = 0;
        break;
    }
    case Fetch::Stage::answered:
        settle(fetch.receipt, key, rule);
        fetch.time = std::max<Time>(fetch.time, 0);
        if (fetch.host == Fetch::nobody || is_void(fetch.time, fetch.receipt, setting.flaw)) {
            fetch = {};
        }
    }
}

void settle(Return &message, const Key &key, const Rule &rule) {
    settle(message.receipt, key, rule);
    if (message.units == 0 || (message.receipt == over && !message.is_debit)) {
        message = {};
    }
}

/// Of the worlds that differ in the names of the hosts only, the least one stands for all.
void make_hosts_alike(World &world, const Setting &setting) {
    std::array<uint8_t, most_hosts + 1> names{};
    std::iota(names.begin(), names.end(), uint8_t{0});
    const World given = world;
    while (std::next_permutation(names.begin(), names.begin() + setting.hosts)) {
        World renamed = given;
        for (size_t host = 0; host < setting.hosts; ++host) {
            renamed.books[names[host]] = given.books[host];
        }
        for (Fetch &fetch : renamed.fetches) {
            fetch.host = fetch.stage == Fetch::Stage::none ? fetch.host : names[fetch.host];
        }
        sort(std::span(renamed.fetches).first(setting.fetches));
        world = std::min(world, renamed, is_less<World>);
    }
}

} // namespace

void make_canonical(World &world, const Setting &setting, const Rule &rule) {
    for (Book &book : world.books) {
        for (Lease &lease : book) {
            settle(lease, world.key, setting, rule);
        }
        sort(book);
    }
    for (Fetch &fetch : world.fetches) {
        settle(fetch, world.key, setting, rule);
    }
    for (Return &message : world.returns) {
        settle(message, world.key, rule);
    }
    world.key.moved_back = 0;
    sort(std::span(world.fetches).first(setting.fetches));
    sort(std::span(world.returns).first(setting.returns));
    if (!setting.tells_hosts_apart) {
        make_hosts_alike(world, setting);
    }
}

} // namespace protocol
