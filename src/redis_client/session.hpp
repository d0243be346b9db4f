// The checks of one worker at one Redis, over the life of many connections.
//
// The session knows no sockets: whoever owns the transport tells it what happened, gives it the
// bytes that came and sends the bytes of output(). On a new connection it first logs in, selects
// the database and loads the scripts; then checks go out, pipelined, and replies are matched to
// them in order. No check is ever sent twice on the wire, but for one EVAL where Redis said that
// it did not run the script (NOSCRIPT).
#pragma once

#include "../redis_client/breaker.hpp"
#include "byte_queue.hpp"
#include "check.hpp"
#include "hash_slot.hpp"
#include "login.hpp"
#include "redirect.hpp"
#include "resp.hpp"
#include "send_queue.hpp"
#include "session_group.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

namespace redis_client {

/// What became of all checks so far, but those that were abandoned and never run.
struct Counters {
    uint64_t verdicts = 0;
    uint64_t failures = 0;
    uint64_t key_failures = 0; // of these: by their keys, which is no fault of Redis
    uint64_t not_asked = 0;    // since too many had failed before
    uint64_t scripts_sent = 0; // with checks or releases, since Redis did not know them
};

class Session;

/// Who knows the sessions of a cluster's other nodes.
class Redirects {
  public:
    /// The session's node says that another one has a key.
    virtual void on_redirect(const Session &from, const Redirect &to) = 0;
    /// Follows where somebody asked for the key: the command is no longer that session's, and
    /// another one is to take it over.
    virtual void ask_again(Command &command, const Session &from, const Redirect &to) = 0;

  protected:
    ~Redirects() = default;
};

class Session {
  public:
    /// `seed` is any number, another one for each session. Without `redirects` Redis is not asked
    /// as a cluster's node.
    Session(SessionGroup &group, uint32_t seed, Redirects *redirects = nullptr);
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    /// Asks for all charges, most_rules of them at most, or none. Either the callbacks is told
    /// later, or there is a failure at once. Where no connection is ready the check waits for one,
    /// unless the last attempt to get one failed, or too many checks did.
    std::variant<Command *, Failure> ask(std::span<Charge> charges, CheckCallbacks &callbacks,
                                         Time now);

    /// The check's callbacks, and its charges, are no longer there.
    void abandon(Command &check, Time now);

    /// Another callbacks, with copies of the charges and of all that they refer to, waits for the
    /// answer from now on. The permits are given back: at once if the check was sent, else when it
    /// is answered.
    void hand_over(Command &check, std::span<Charge> charges, CheckCallbacks &callbacks, Time now);

    /// Gives back what an answered check has charged. Lost where the connection breaks before Redis
    /// has it, or where its key has moved to another node since then, but for permits.
    void refund(std::span<Charge> charges, Time now);

    /// Gives a permit back: for certain, though perhaps only when Redis can be reached again.
    void release(Permit &permit, Time now);

    /// The check that has waited longest, which is to be another session's; null where none waits.
    /// Of a session that has never sent any.
    Command *give_away();

    /// Asks, within its old deadline, what another session has given away, or what another node has
    /// redirected here.
    void take_over(Command &command, Redirect::Kind kind, Time now);

    /// Keeps the permits from now on that another session kept, those whose keys are in these hash
    /// permits. Redis is told at the next expire().
    void take_permits(const HashSlotSet &of, Session &from);

    bool has(const Command &command) const { return command.session == this; }
    bool has(const Permit &permit) const { return permit.home == &permits_; }
    HashSlotSet hash_slots_of_permits() const { return permits_.hash_slots(); }

    /// The transport is connected.
    void connected();

    enum class Progress {
        more,    // as it should be
        ready,   // the connection has just become ready
        broken,  // to be closed, for the reason in problem()
        refused, // the same, and so will the next one be until somebody changes users or passwords
    };
    Progress received(std::string_view bytes, Time now);

    /// What was wrong: our words, and the first words of Redis where there are some. Unescaped.
    /// Valid until the next problem, or the next connection.
    struct Problem {
        std::string_view what;
        std::string_view redis_said;
        std::string_view checked; // CheckCallbacks::describe(), where keys are at fault
        bool is_of_keys = false;  // and says nothing of Redis
    };
    const Problem &problem() const { return problem_; }

    /// The transport is closed, or could not be opened: what was sent fails, and what waits for
    /// a connection goes on waiting only if `lost` is `in_use`.
    enum class Lost {
        in_use,      // a connection that worked; a new one is to be expected
        unreachable, // no connection came about, or Redis no longer answers on it
    };
    void disconnected(Lost lost, Time now);

    /// Fails the checks whose deadline has come, and renews permits. True: the oldest command has
    /// been unanswered for so long that the connection is to be given up.
    bool expire(Time now);

    /// When an answer is missed, if ever: what has come by then is to be read before expire().
    std::optional<Time> overdue_at() const;

    /// When expire() is to be called next, if ever.
    std::optional<Time> next_expiry() const;

    /// Writes the checks that were asked since the last time to output(): at the end of a turn of
    /// the event loop, so that those of one turn share script runs.
    void flush(Time now);
    bool has_output() const { return !output_.empty() || !to_send_.empty(); }
    ByteQueue &output() { return output_; }

    bool is_ready() const { return state_ == State::ready; }
    bool has_waiting() const { return !waiting_.empty(); }
    /// Whether Redis is still to be told of units that were given back, or of permits that are held
    /// for longer.
    bool has_background_commands() const { return refunds_ > 0 || !permits_.empty(); }
    /// Whether it can be told of that, as the last attempt to connect showed and its answer to the
    /// last command.
    bool takes_background_commands() const {
        return !unreachable_ && !refuses_background_commands_;
    }
    size_t pending() const { return pending_; }          // checks and background commands
    bool is_unreachable() const { return unreachable_; } // as the last attempt to connect showed
    const Counters &counters() const { return counters_; }

    /// A connection whose oldest command is older than this is given up, but never before a
    /// check's own deadline.
    static constexpr std::chrono::milliseconds longest_silence{1000};

  private:
    enum class State {
        closed,
        logging_in,
        ready,
    };

    std::optional<Time> given_up_at() const;
    Failure refuse(Failure failure, Time now);
    bool names_keys(std::string_view error) const;
    void count(std::optional<Failure> failure, Time now);

    Progress take_login_reply(const Reply &reply, Time now);
    Progress take_reply(const Reply &reply, Time now);
    Progress take_verdicts(Command &first, const Reply &reply, Time now);
    Progress take_error(Command &command, std::string_view error, Time now);
    Progress broken(std::string_view what, std::string_view redis_said = {});
    void note_problem(std::string_view what, std::string_view redis_said = {});
    void note_problem_of_keys(const Command &check, std::string_view what,
                              std::string_view redis_said = {});
    void note_failed_checks(const Command &first, std::string_view error);
    void fail(Command &command, Failure failure, Time now);
    void finish(Command &check, std::optional<Failure> failure, Time now);
    void tell(CheckCallbacks *callbacks, std::optional<Failure> failure, Time now);
    Command *new_command(Command::Kind kind);
    void recycle(Command &command);

    // session_sending.cpp
    bool prepare(Command &check, std::span<Charge> charges);
    void send_waiting();
    bool send(Command &first, Time now);
    bool send_asking(Time now);
    void send_in_full(Command &first, Time now);
    void send_apart(Command &first, Time now);
    Command *keep_wanted(Command &first);
    void drop(Command &command);
    void send_or_fail(Command &first, Time now);
    void queue(Command &first, Time now);

    // session_redirects.cpp
    void redirect(Command &first, const Redirect &to, std::string_view error, Time now);
    void leave(Command &command);
    void wait(Command &check);

    // session_background.cpp
    void settle_permits(const Command &check, Time now);
    void note_refusal(const Command &command);
    void leave_permits(const Command &check, Time now);
    void send_refund(const Charge &charge, Time now);
    void send_release(Permit &permit, Time now);
    void tend_permits(Time now);
    void renew_permits(Time now);
    void send_renewal(std::span<Permit *const> permits, Time now);
    void resend_renewal(Command &renewal, Session &from, Time now);
    void finish_background_command(Command &command, bool done);

    SessionGroup &group_;
    const SessionSettings &settings_;
    Redirects *redirects_;
    State state_ = State::closed;
    bool unreachable_ = false;
    Login login_;
    ByteQueue output_;
    ReplyReader reader_;
    Problem problem_;
    std::array<char, 512> redis_said_; // problem_'s: the next reply takes the reader's memory
    std::array<char, 512> checked_;    // problem_'s
    Counters counters_;
    Breaker breaker_;
    Permits permits_;
    size_t pending_ = 0; // of the group's commands
    size_t refunds_ = 0; // of them
    bool refuses_background_commands_ = false;
    IntrusiveList<Command, &Command::waiting_hook> waiting_;
    SendQueue to_send_;
    IntrusiveList<Command, &Command::sending_hook> to_answer_; // the first commands of runs
};

} // namespace redis_client
