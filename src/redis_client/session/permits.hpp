// The permits that requests in flight hold of `concurrency` rules, which lua/concurrency.lua keeps
// in Redis: which of them have to be renewed, and which have to be given back.
//
// A permit in Redis falls free after its rule's window. So a permit that could not be given back is
// forgotten here after that time, too.
#pragma once

#include "rate_limit/text/key.hpp"
#include "redis_client/intrusive_list.hpp"
#include "redis_client/io/random_bytes.hpp"
#include "redis_client/object_pool.hpp"
#include "redis_client/wire/hash_slot.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace redis_client {

/// Time on a clock of the worker that never steps back. Its origin does not matter.
using Time = std::chrono::milliseconds;

class Permits;

struct Permit : Pooled<Permit> {
    enum class State {
        asked,     // a check that asks for it is on its way, or soon will be
        held,      // a request holds it
        returning, // it is to be released, or is being released
    };

    State state = State::asked;
    Permits *home = nullptr; // the session's permits that have this one
    std::string_view redis_key;
    uint16_t hash_slot = 0;
    std::string_view name; // "<id> <units>"; no other permit of any host has this name
    std::chrono::milliseconds window{0};
    Time renewed{0}; // when Redis was last asked for it
    bool is_release_sent = false;
    bool is_doubtful = false; // nobody knows whether its renewal arrived
    uint64_t renewal = 0;     // the number of its last renewal; 0 if there was none
    bool is_unlikely = false; // Redis hardly has it, so its release is tried once
    ListHook<Permit> hook;

    rate_limit::RedisKeyBuffer redis_key_bytes;
    std::array<char, 64> name_bytes;
};

using PermitList = IntrusiveList<Permit, &Permit::hook>;

class Permits {
  public:
    /// Their names come from `random_bytes`.
    Permits(ObjectPool<Permit> &pool, const RandomBytes &random_bytes);

    /// Makes a permit to ask for. Returns null if memory ran out.
    Permit *make(std::string_view redis_key, uint64_t units, std::chrono::milliseconds window);

    /// Another Redis has the permit's key by now. What the one before was told may be lost.
    void adopt(Permit &permit);
    /// Adopts all permits whose keys are in these hash slots.
    void adopt_all(const HashSlotSet &of, Permits &from);

    void hold(Permit &permit, Time asked);
    void give_back(Permit &permit, Time now); // it is released from here on
    void drop(Permit &permit);                // Redis does not know it, or no longer does

    PermitList &held() { return held_; }
    PermitList &returning() { return returning_; }
    HashSlotSet hash_slots() const; // of the keys of all permits
    bool empty() const { return held_.empty() && returning_.empty(); }

    /// Whether a held permit has to be renewed by now. That is early enough for a second try if one
    /// fails.
    static bool is_to_renew(const Permit &permit, Time now) {
        return permit.is_doubtful || permit.renewed + permit.window / 3 <= now;
    }
    /// Whether Redis has forgotten the permit.
    static bool has_ended(const Permit &permit, Time now) {
        return permit.renewed + permit.window <= now;
    }

    /// The connection broke, and perhaps renewals were lost, so all permits have to be renewed.
    void doubt_renewals();
    /// The renewal of that number failed, or nobody will say whether it did. Its permits have to be
    /// renewed soon.
    void doubt_renewal(uint64_t number);

    /// When the permits have to be looked at next, if ever.
    std::optional<Time> next_look() const;
    void looked(Time now);

  private:
    std::string id_; // of this worker
    uint64_t made_ = 0;
    ObjectPool<Permit> &pool_;
    PermitList held_;
    PermitList returning_;
    std::chrono::milliseconds shortest_window_ = rate_limit::longest_window; // the shortest so far
    Time last_look_{0};
    bool has_adopted_ = false;        // since the last look
    bool has_failed_renewal_ = false; // since the last look
};

} // namespace redis_client
