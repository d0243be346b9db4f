// A check asks Redis whether some keys may take units of their rules: all of them are granted, or
// none is charged. This file has the check's parts and the command by which it goes to Redis.
#pragma once

#include "rate_limit/rule/leasing.hpp"
#include "rate_limit/rule/rule.hpp"
#include "rate_limit/rule/verdict.hpp"
#include "redis_client/intrusive_list.hpp"
#include "redis_client/object_pool.hpp"
#include "redis_client/script/arguments.hpp"
#include "redis_client/session/permits.hpp"
#include "redis_client/session/settlement.hpp"
#include "redis_client/wire/resp.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace redis_client {

using rate_limit::Failure;

/// The most units that one call leases. Products of them and of the fractions of an interval stay
/// exact in Lua.
inline constexpr uint64_t most_leased = uint64_t{1} << 20;

/// One rule's part of a check. Its owner is whoever asks. It stays where it is, with all that it
/// refers to, until the check is answered or forgotten.
struct Charge {
    rate_limit::Quota quota;
    bool dry_run = false; // a dry run never keeps the other charges from being made
    std::string_view redis_key;
    uint16_t hash_slot = 0; // of a cluster; all charges of a check are in one
    // Of check_arguments(), or of leasing_arguments() if it may lease. Checks that share them go
    // together.
    const WireWords *arguments = nullptr;
    bool may_lease = false;
    uint64_t wanted = 0; // units to lease if the check is granted, to most_leased
    // Of the rule: here they count if the answer comes too late. Null: they are not counted then.
    rate_limit::RuleCounters *lease_counters = nullptr;
    // For how long a denial blocks the client; 0: the rule has no `block`. A charge that blocks is
    // no dry run, and leases nothing.
    std::chrono::milliseconds block{0};

    // What Redis answered:
    rate_limit::Verdict verdict;          // without the units that are leased
    std::chrono::microseconds decided{0}; // when, by Redis's clock, in Unix time
    bool is_charged = false;
    int64_t receipt = 0;      // names the charge in a refund
    Permit *permit = nullptr; // what a `concurrency` rule was charged, to be given back
    rate_limit::LeasedUnits leased;
    std::chrono::microseconds blocked_for{0}; // what is left of the client's block
    // What the counter alone says: after units were leased, or if the client were not blocked. It
    // is set if one of these is so.
    rate_limit::Verdict of_counter;

    bool blocks() const { return block.count() > 0; }

    /// Names it in a refund.
    ChargeToReturn to_return() const {
        return {.receipt = receipt, .made = decided, .led_to = decided + verdict.reset};
    }

    /// Returns the verdict that tells what Redis has left in the end.
    const rate_limit::Verdict &last_verdict() const {
        return leased.units > 0 || blocked_for.count() > 0 ? of_counter : verdict;
    }
};

/// Whoever waits for the answer of a check is told here.
class CheckCallbacks {
  public:
    /// The check is answered and gone. Without a failure the charges hold the answer. This is
    /// called once, also for a check that was abandoned.
    virtual void on_answer(std::optional<Failure> failure) = 0;

    /// Writes to `out` for the log which rules and keys the check is about, ready to be shown, and
    /// returns that part of it. It is called if these keys are at fault.
    virtual std::string_view describe(std::span<char> out) const { return {out.data(), 0}; }

  protected:
    ~CheckCallbacks() = default;
};

class Session;

/// A command on its way to Redis and back: a check, or a background command for which nobody waits.
/// Its owner is a session. A check that was sent outlives its callbacks: it stays until its reply
/// has come, so that the reply is not taken for that of another command.
struct Command : Pooled<Command> {
    enum class Kind {
        check,
        release,    // gives one permit back
        renewal,    // keeps many permits
        settlement, // settles what requests turned out to cost, or gives charges back
        asking,     // lets the next command ask the node to which a hash slot moves
    };

    Kind kind = Kind::check;
    Session *session = nullptr;          // the session that has the command
    CheckCallbacks *callbacks = nullptr; // null if nobody waits, or no longer
    std::span<Charge> charges;           // empty without callbacks
    Permit *permit = nullptr;            // the permit that is released
    uint64_t renewal = 0;                // the number of a renewal: see Permit::renewal
    bool renews_several_keys = false;
    SettlementList settlements; // that go together
    size_t reply_size = 0;      // of a check's reply, in bytes
    bool has_failed = false;    // while others of its batch have not

    Time asked{0};
    Time sent{0};
    bool is_to_send = false;
    bool is_sent = false;
    uint64_t end_of_command = 0;   // its end in the bytes of the session's output
    bool sent_in_full = false;     // with the script's text (EVAL), not its name (EVALSHA)
    uint16_t hash_slot = 0;        // the one of all its keys
    int redirects = 0;             // how often it was redirected
    bool needs_asking = false;     // ASKING has to stand before it
    bool is_abandoned = false;     // its request is gone, see Backend::abandon()
    bool is_sent_for_good = false; // its permits are released: it cannot be sent again
    bool timed_out = false;        // it was counted so, and a late reply changes nothing
    // Copies of the charges of such a check, if it wants units leased: its late reply tells how
    // many. What the copies refer to is gone.
    std::unique_ptr<Charge[]> late_charges; // null: none
    size_t late_charge_count = 0;

    /// Whether the command is to be sent again if Redis did not run it.
    bool is_wanted() const {
        return (callbacks != nullptr && !is_sent_for_good) || kind == Kind::release ||
               kind == Kind::settlement;
    }

    /// Whether it can come apart: it is a batch of several checks, or of several settlements, or
    /// has a settlement that can do without its second key, or renews permits of several keys.
    bool has_company() const {
        const Settlement *settlement = settlements.front();
        return next_in_batch != nullptr || settlement != settlements.back() ||
               (settlement != nullptr && settlement->keeps_past() && !settlement->is_on_one_key) ||
               renews_several_keys;
    }

    ListHook<Command> waiting_hook;   // in the list of those with callbacks, oldest first
    ListHook<Command> sending_hook;   // in a list of those to send, or to be answered
    Command *next_in_batch = nullptr; // one call of a script decides all of them
};

} // namespace redis_client
