// The permits that requests in flight hold of `concurrency` rules, as lua/concurrency.lua keeps
// them: which are to be renewed, which are to be given back.
//
// A permit in Redis falls free after its rule's window. So one that could not be given back is
// forgotten here after that time, too.
#pragma once

#include "../rate_limit/key.hpp"
#include "hash_slot.hpp"
#include "intrusive_list.hpp"
#include "object_pool.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace redis_client {

/// Time on a clock of the worker that never steps back, from any origin.
using Time = std::chrono::milliseconds;

class Permits;

struct Permit : Pooled<Permit> {
    enum class State {
        asked,     // a check that asks for it is on its way, or about to be
        held,      // by a request
        returning, // to be released, or already being released
    };

    State state = State::asked;
    Permits *home = nullptr; // who keeps it
    std::string_view redis_key;
    uint16_t hash_slot = 0;
    std::string_view name; // "<id> <units>": no other permit, of whatever host, has it
    std::chrono::milliseconds window{0};
    Time renewed{0}; // when it was last asked for
    bool is_release_sent = false;
    bool is_doubtful = false; // whether it was renewed
    uint64_t renewal = 0;     // the number of the last one that was tried; 0: there was none
    bool is_unlikely = false; // that Redis has it: its release is tried once
    ListHook<Permit> hook;

    rate_limit::RedisKeyBuffer redis_key_bytes;
    std::array<char, 64> name_bytes;
};

using PermitList = IntrusiveList<Permit, &Permit::hook>;

class Permits {
  public:
    explicit Permits(ObjectPool<Permit> &pool);

    /// A permit to ask for. Null without memory.
    Permit *make(std::string_view redis_key, uint64_t units, std::chrono::milliseconds window);

    /// Another Redis has its key by now; what was said to the one before may be lost.
    void adopt(Permit &permit);
    /// Those whose keys are in these hash slots.
    void adopt_all(const HashSlotSet &of, Permits &from);

    void hold(Permit &permit, Time asked);
    void give_back(Permit &permit, Time now); // is to be released
    void drop(Permit &permit);                // Redis does not know it, or no longer

    PermitList &held() { return held_; }
    PermitList &returning() { return returning_; }
    HashSlotSet hash_slots() const; // of the keys of all
    bool empty() const { return held_.empty() && returning_.empty(); }

    /// Whether a held permit's time has come to be renewed: early enough for a second try, should
    /// one fail.
    static bool is_to_renew(const Permit &permit, Time now) {
        return permit.is_doubtful || permit.renewed + permit.window / 3 <= now;
    }
    /// Whether Redis has forgotten the permit.
    static bool has_ended(const Permit &permit, Time now) {
        return permit.renewed + permit.window <= now;
    }

    /// The connection broke, and with it perhaps renewals: all are to be renewed.
    void doubt_renewals();
    /// The renewal of that number failed, or nobody will say whether it did: its permits are to be
    /// renewed soon.
    void doubt_renewal(uint64_t number);

    /// When to look at the permits next, if ever.
    std::optional<Time> next_look() const;
    void looked(Time now);

  private:
    std::string id_; // of this worker
    uint64_t made_ = 0;
    ObjectPool<Permit> &pool_;
    PermitList held_;
    PermitList returning_;
    std::chrono::milliseconds shortest_window_ = rate_limit::longest_window; // seen so far
    Time last_look_{0};
    bool has_adopted_ = false;        // since then
    bool has_failed_renewal_ = false; // since then
};

} // namespace redis_client
