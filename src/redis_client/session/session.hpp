// The checks of one worker at one Redis, over the life of many connections.
//
// The session knows no sockets: the owner of the transport tells it what happened, gives it the
// bytes that came and sends the bytes of output(). On a new connection the session first logs in
// and loads the scripts (login.hpp). Then checks go out, pipelined and in batches (send_queue.hpp),
// and replies are matched to them in order. No check is sent twice, except if Redis says that it
// did not run the script (NOSCRIPT), or that another node has the key.
#pragma once

#include "redis_client/session/breaker.hpp"
#include "redis_client/session/check.hpp"
#include "redis_client/session/login.hpp"
#include "redis_client/session/permit_commands.hpp"
#include "redis_client/session/pipeline.hpp"
#include "redis_client/session/problem.hpp"
#include "redis_client/session/send_queue.hpp"
#include "redis_client/session/session_group.hpp"
#include "redis_client/session/settlements.hpp"
#include "redis_client/session/suspects.hpp"
#include "redis_client/wire/byte_queue.hpp"
#include "redis_client/wire/hash_slot.hpp"
#include "redis_client/wire/redirect_error.hpp"
#include "redis_client/wire/resp.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

namespace redis_client {

/// What became of all checks so far. Those that were forgotten before they were sent do not count.
struct Counters {
    uint64_t verdicts = 0;
    uint64_t failures = 0;
    uint64_t check_failures = 0; // failures by the fault of keys or clocks, not of Redis
    uint64_t not_asked = 0;      // because too many checks had failed before
    uint64_t scripts_sent = 0;   // sent in full, because Redis did not know them
};

class Session;

/// Finds the session of another cluster node, for redirects.
class Redirects {
  public:
    /// The node of the session says that another node has a key.
    virtual void on_redirect(const Session &from, const Redirect &to) = 0;
    /// Asks the other node. The command no longer belongs to the session `from`, and another
    /// session has to take it over.
    virtual void ask_again(Command &command, const Session &from, const Redirect &to) = 0;

  protected:
    ~Redirects() = default;
};

class Session {
  public:
    /// `seed` is any number, another one for each session. Without `redirects` the Redis is not a
    /// node of a cluster.
    Session(SessionGroup &group, uint32_t seed, Redirects *redirects = nullptr);
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    /// Asks for the charges, of which there are most_rules at most: all of them are made, or none.
    /// Either the callbacks hear of the answer later, or a failure is returned. If no connection is
    /// ready the check waits for one, unless the last attempt to connect failed, or too many checks
    /// did.
    std::variant<Command *, Failure> ask(std::span<Charge> charges, CheckCallbacks &callbacks,
                                         Time now);

    /// The callbacks of the check, and its charges, are gone from here on.
    void forget(Command &check, Time now);

    /// See Backend::abandon().
    void abandon(Command &check, Time now);

    /// Gives back what an answered check has charged. Units go as settlements do. Permits are never
    /// lost.
    void refund(std::span<Charge> charges, Time now);

    /// Takes on a settlement. It waits for a connection, and is lost if the connection breaks
    /// before Redis has answered.
    void settle(const SettlementOrder &order) { settlements_.add(order); }

    /// Gives a permit back. This is never lost, but may have to wait until Redis can be reached.
    void release(Permit &permit, Time now);

    /// Removes the check that has waited longest, for another session to take over. Returns null if
    /// none waits. The session has never sent a check.
    Command *give_away();

    /// Sends, within its old deadline, a command that another session has given away, or that
    /// another node has redirected here.
    void take_over(Command &command, Redirect::Kind kind, Time now);

    /// Takes over the permits of another session whose keys are in these hash slots. Redis is told
    /// at the next expire().
    void take_permits(const HashSlotSet &of, Session &from);

    /// The same for settlements that wait.
    void take_settlements(const HashSlotSet &of, Session &from) {
        settlements_.take_waiting(of, from.settlements_);
    }
    HashSlotSet hash_slots_of_settlements() const { return settlements_.hash_slots_of_waiting(); }

    bool has(const Command &command) const { return command.session == this; }
    bool has(const Permit &permit) const { return permit_commands_.has(permit); }
    HashSlotSet hash_slots_of_permits() const { return permit_commands_.permits().hash_slots(); }

    /// The transport is connected.
    void connected();

    using Progress = SessionProgress;
    Progress received(std::string_view bytes, Time now);

    /// What was wrong last.
    const Problem &problem() const { return problem_.last(); }

    /// The transport is closed, or could not be opened. Checks that were sent fail. Checks that
    /// wait for a connection go on waiting if `lost` is `in_use`, or else fail, too.
    enum class Lost {
        in_use,      // the connection worked, and a new one is to be expected
        unreachable, // no connection came about, or Redis no longer answers on it
    };
    void disconnected(Lost lost, Time now);

    /// Fails the checks whose deadline has come, and renews permits. Returns true if the oldest
    /// command has had no answer for so long that the connection has to be given up.
    bool expire(Time now);

    /// When the next answer is overdue, if one is expected. What has come by then has to be read
    /// before expire().
    std::optional<Time> overdue_at() const;

    /// When expire() is to be called next, if ever.
    std::optional<Time> next_expiry() const;

    /// Writes the checks that were asked since the last time to output(). It is called at the end
    /// of a turn of the event loop, so that the checks of one turn share batches.
    void flush(Time now);
    bool has_output() const {
        return !pipeline_.output().empty() || !to_send_.empty() || settlements_.are_waiting();
    }
    ByteQueue &output() { return pipeline_.output(); }

    bool is_ready() const { return pipeline_.is_open(); }
    bool has_waiting() const { return !waiting_.empty(); }
    /// Whether Redis still has to hear of units that were given back or settled, or of permits that
    /// are held.
    bool has_background_commands() const {
        return !permit_commands_.empty() || !settlements_.empty();
    }
    /// Whether Redis can hear of that: it was reached by the last attempt to connect, and has not
    /// refused a release of permits since it last ran a command for permits, if there is nothing
    /// but permits to hear of.
    bool takes_background_commands() const {
        return !unreachable_ && !(permit_commands_.is_refused() && settlements_.empty());
    }
    size_t pending() const { return pipeline_.pending(); } // checks and background commands
    bool is_unreachable() const { return unreachable_; }   // by the last attempt to connect
    const Counters &counters() const { return counters_; }
    const Suspects &suspects() const { return suspects_; }
    void forget_suspects(Problem::Cause cause) { suspects_.forget(cause); }
    /// Whether the worker has leases that it may have to give back before it ends.
    bool has_leases() const { return group_.leases > 0; }

    /// A connection is given up if its oldest command has had no answer for this time, and for the
    /// time that a check has.
    static constexpr std::chrono::milliseconds longest_silence{1000};

  private:
    std::optional<Time> given_up_at() const;
    Failure refuse(Failure failure, Time now);
    void count(std::optional<Failure> failure, Time now);
    void send_waiting();
    void send_or_fail(Command &first, Time now);
    void fail(Command &command, Failure failure, Time now);
    void end_in_vain(Command &background_command);
    void finish(Command &check, std::optional<Failure> failure, Time now);
    void tell(CheckCallbacks *callbacks, std::optional<Failure> failure, Time now);

    // session_replies.cpp
    Progress take_login_reply(const Reply &reply, Time now);
    Progress take_reply(const Reply &reply, Time now);
    Progress take_verdicts(Command &first, const Reply &reply, Time now);
    Progress take_settled(Command &command, const Reply &reply);
    Progress broken(std::string_view what, std::string_view redis_said = {});

    // session_errors.cpp
    Progress take_error(Command &command, std::string_view error, Time now);
    void send_in_full(Command &first, Time now);
    void send_apart(Command &first, Time now);
    Command *keep_wanted(Command &first);
    void drop(Command &command);

    // session_redirects.cpp
    void redirect(Command &first, const Redirect &to, std::string_view error, Time now);
    void hand_over(Command &command);
    void wait(Command &check);

    SessionGroup &group_;
    const SessionSettings &settings_;
    Redirects *redirects_;
    bool unreachable_ = false;
    Login login_;
    ReplyReader reader_;
    ProblemNote problem_;
    Counters counters_;
    Suspects suspects_;
    Breaker breaker_;
    IntrusiveList<Command, &Command::waiting_hook> waiting_;
    SendQueue to_send_;
    Pipeline pipeline_;
    PermitCommands permit_commands_;
    Settlements settlements_;
};

} // namespace redis_client
