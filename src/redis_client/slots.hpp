// The slots that requests in flight hold of `concurrency` rules, as lua/concurrency.lua keeps them:
// which are to be renewed, which are to be given back.
//
// A slot in Redis falls free after its rule's window. So one that could not be given back is
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

class Slots;

struct Slot : Pooled<Slot> {
    enum class State {
        asked,     // a check that asks for it is on its way, or about to be
        held,      // by a request
        returning, // to be released, or already being released
    };

    State state = State::asked;
    Slots *home = nullptr; // who keeps it
    std::string_view redis_key;
    uint16_t hash_slot = 0;
    std::string_view name; // "<id> <units>": no other slot, of whatever host, has it
    std::chrono::milliseconds window{0};
    Time renewed{0}; // when it was last asked for
    bool is_release_sent = false;
    bool is_doubtful = false; // whether it was renewed
    uint64_t renewal = 0;     // the number of the last one that was tried; 0: there was none
    bool is_unlikely = false; // that Redis has it: its release is tried once
    ListHook<Slot> hook;

    rate_limit::RedisKeyBuffer redis_key_bytes;
    std::array<char, 64> name_bytes;
};

using SlotList = IntrusiveList<Slot, &Slot::hook>;

class Slots {
  public:
    explicit Slots(ObjectPool<Slot> &pool);

    /// A slot to ask for. Null without memory.
    Slot *make(std::string_view redis_key, uint64_t units, std::chrono::milliseconds window);

    /// Another Redis has its key by now; what was said to the one before may be lost.
    void adopt(Slot &slot);
    /// Those whose keys are in these hash slots.
    void adopt_all(const HashSlotSet &of, Slots &from);

    void hold(Slot &slot, Time asked);
    void give_back(Slot &slot, Time now); // is to be released
    void drop(Slot &slot);                // Redis does not know it, or no longer

    SlotList &held() { return held_; }
    SlotList &returning() { return returning_; }
    HashSlotSet hash_slots() const; // of the keys of all
    bool empty() const { return held_.empty() && returning_.empty(); }

    /// Whether a held slot's time has come to be renewed: early enough for a second try, should one
    /// fail.
    static bool is_to_renew(const Slot &slot, Time now) {
        return slot.is_doubtful || slot.renewed + slot.window / 3 <= now;
    }
    /// Whether Redis has forgotten the slot.
    static bool has_ended(const Slot &slot, Time now) { return slot.renewed + slot.window <= now; }

    /// The connection broke, and with it perhaps renewals: all are to be renewed.
    void doubt_renewals();
    /// The renewal of that number failed, or nobody will say whether it did: its slots are to be
    /// renewed soon.
    void doubt_renewal(uint64_t number);

    /// When to look at the slots next, if ever.
    std::optional<Time> next_look() const;
    void looked(Time now);

  private:
    std::string id_; // of this worker
    uint64_t made_ = 0;
    ObjectPool<Slot> &pool_;
    SlotList held_;
    SlotList returning_;
    std::chrono::milliseconds shortest_window_ = rate_limit::longest_window; // seen so far
    Time last_look_{0};
    bool has_adopted_ = false;        // since then
    bool has_failed_renewal_ = false; // since then
};

} // namespace redis_client
