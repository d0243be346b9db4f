// What is charged or given back after a check: what requests turned out to cost when they ended,
// what they were charged though another rule denies, and what leases have left. No request waits.
// Settlements of one turn go together. Those that cannot be sent are kept until a connection is
// there. One that was sent is never sent again, except if Redis says that it did not run the
// script: without its reply nobody knows whether it was done.
#pragma once

#include "rate_limit/metrics/rule_counters.hpp"
#include "redis_client/session/check.hpp"
#include "redis_client/session/pipeline.hpp"
#include "redis_client/session/session_group.hpp"
#include "redis_client/session/settlement.hpp"
#include "redis_client/wire/hash_slot.hpp"

#include <string_view>

namespace redis_client {

/// What is to be settled: the charge's counter, its cost as the units to charge or to give back,
/// and for a refund its receipt.
struct SettlementOrder {
    SettlementKind kind;
    const Charge &charge;
    bool aligned;                       // the rule's fixed windows
    rate_limit::RuleCounters *counters; // of the rule, outlive the settlement; null: not counted
    bool is_of_lease = false;           // it gives back what a lease has left
};

/// Counts a settlement of which Redis will not hear.
void count_lost(const SettlementOrder &order);

/// Has the settlements of one session.
class Settlements {
  public:
    Settlements(SessionGroup &group, Pipeline &pipeline) : group_(group), pipeline_(pipeline) {}
    Settlements(const Settlements &) = delete;
    Settlements &operator=(const Settlements &) = delete;
    /// What was not sent is lost.
    ~Settlements();

    /// Takes a settlement on. If there are too many already, it is lost.
    void add(const SettlementOrder &order);
    /// Takes on to give back what a charge took, which nobody counts.
    void give_back(const Charge &charge);
    /// Sends all that wait, if a connection is ready. Keys share a command only if `may_share` is
    /// true.
    void send(bool may_share, Time now);
    bool are_waiting() const { return !waiting_.empty(); }
    /// Whether Redis still has to hear of some.
    bool empty() const { return waiting_.empty() && sent_ == 0; }

    /// Whether a text may be the answer to a command of settlements: a digit for each, and behind
    /// them what Redis said of the last one that failed.
    static bool is_answer(const Command &command, std::string_view answer);
    /// Returns what Redis said, or an empty text if all were done.
    static std::string_view failure_in(const Command &command, std::string_view answer);
    /// Redis answered the command, which is gone from here on.
    void finish(Command &command, std::string_view answer);
    /// Nobody will say what became of the command, or Redis did not run it.
    void lose(Command &command);
    /// Redis ran none of the command's settlements: they are to be sent one by one, each with the
    /// key of its counter alone.
    void send_apart(Command &command, Time now);
    /// Redis ran none of them. They wait here from now on; the command is gone.
    void wait_again(Command &command);

    /// A command that Redis did not run goes to another session, or comes from one.
    void let_go(const Command &command) { sent_ -= count_of(command); }
    void take_over(const Command &command) { sent_ += count_of(command); }
    /// Takes the waiting settlements of another session whose keys are in these hash slots.
    void take_waiting(const HashSlotSet &of, Settlements &from);
    HashSlotSet hash_slots_of_waiting() const;

  private:
    static size_t count_of(const Command &command);
    Settlement *make(SettlementKind kind, const Charge &charge, const WireWords &arguments);
    void end(Settlement &settlement, rate_limit::RuleCounter result);

    SessionGroup &group_;
    Pipeline &pipeline_;
    SettlementList waiting_;
    size_t sent_ = 0; // how many have no answer yet
};

} // namespace redis_client
