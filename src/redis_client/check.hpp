// One question to Redis: may these keys take units of these rules, all of them or none?
#pragma once

#include "../rate_limit/rule.hpp"
#include "../rate_limit/verdict.hpp"
#include "intrusive_list.hpp"
#include "object_pool.hpp"
#include "permits.hpp"
#include "resp.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string_view>

namespace redis_client {

using rate_limit::Failure;

/// One rule's part of a check. It belongs to who asks and stays where it is, with all that it
/// refers to, until the check is answered or abandoned.
struct Charge {
    rate_limit::Quota quota;
    bool dry_run = false; // never keeps the others from being charged
    std::string_view redis_key;
    uint16_t hash_slot = 0;               // in a cluster, where all charges of a check are in one
    const WireWords *arguments = nullptr; // check_arguments(); checks that share them go together

    // The answer:
    rate_limit::Verdict verdict;
    bool is_charged = false;
    int64_t receipt = 0;      // for a refund
    Permit *permit = nullptr; // of a `concurrency` rule that was charged: to be given back
};

/// Who waits for a check's answer.
class CheckCallbacks {
  public:
    /// Called once, unless the check was abandoned; the check is gone by then. Without a failure
    /// the charges hold the answer. Must not call back into the session.
    virtual void on_answer(std::optional<Failure> failure) = 0;

    /// Says in `out` for the log which rules and keys the check is about, ready to be shown, and
    /// returns that part of it. It is called where their keys are at fault.
    virtual std::string_view describe(std::span<char> out) const { return {out.data(), 0}; }

  protected:
    ~CheckCallbacks() = default;
};

class Session;

/// A command on its way to Redis and back: a check, or an command for which nobody waits. Owned by
/// the session. A check outlives its callbacks: when it was sent it stays until its reply came, so
/// that the reply is taken for nobody else's.
struct Command : Pooled<Command> {
    enum class Kind {
        check,
        refund,  // of one charge
        release, // of one permit
        renewal, // of many
        asking,  // so that the next command may ask where a hash slot moves to
    };

    Kind kind = Kind::check;
    Session *session = nullptr;          // that has it
    CheckCallbacks *callbacks = nullptr; // null: nobody waits, or nobody any more
    std::span<Charge> charges;           // only while there is a callbacks
    Permit *permit = nullptr;            // that is released
    uint64_t renewal = 0;                // its number: see Permit::renewal
    size_t reply_size = 0;               // that a check will have
    bool has_failed = false;             // alone of its run

    Time asked{0};
    Time sent{0};
    bool is_to_send = false;
    bool is_sent = false;
    uint64_t end_of_command = 0;   // where it ends in the session's output
    bool sent_in_full = false;     // with EVAL, not by its script's name
    uint16_t hash_slot = 0;        // of all keys
    int redirects = 0;             // so far
    bool needs_asking = false;     // before it
    bool is_handed_over = false;   // its request is gone, but it counts: see Session::hand_over()
    bool is_sent_for_good = false; // its permits are released, so that it cannot be sent again
    bool timed_out = false;        // and was counted as that: a late reply changes nothing

    /// Whether it is to be sent again if Redis did not run it.
    bool is_wanted() const {
        return (callbacks != nullptr && !is_sent_for_good) || kind == Kind::release;
    }

    ListHook<Command> waiting_hook;   // those with a callbacks, in the order of asking
    ListHook<Command> sending_hook;   // those to be sent, or the first of each run sent, in order
    Command *next_in_batch = nullptr; // checks that one script run decides
};

} // namespace redis_client
