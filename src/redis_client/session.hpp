// The checks of one worker at one Redis, over the life of many connections.
//
// The session knows no sockets: whoever owns the transport tells it what happened, gives it the
// bytes that came and sends the bytes of output(). On a new connection it first logs in, selects
// the database and loads the scripts; then checks go out, pipelined, and replies are matched to
// them in order. No check is ever sent twice on the wire, but for one EVAL where Redis said that
// it did not run the script (NOSCRIPT).
#pragma once

#include "byte_queue.hpp"
#include "check.hpp"
#include "resp.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace redis_client {

struct SessionSettings {
    std::string username; // empty: AUTH with the password alone
    std::string password; // empty: no AUTH
    uint64_t database = 0;
    std::vector<const Script *> scripts;    // those that checks will call, at least one
    std::chrono::milliseconds timeout{100}; // of one check, from asking to verdict
    size_t max_pending = 16384;             // checks asked or on the wire
};

/// What became of all checks so far.
struct Counters {
    uint64_t verdicts = 0;
    uint64_t failures = 0;
};

class Session {
  public:
    explicit Session(SessionSettings settings);
    ~Session();
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    /// Asks for one unit of `rule` for `client_key`. Either the listener is told later, or there
    /// is a failure at once. Where no connection is ready the check waits for one, unless the
    /// last attempt to get one failed.
    std::variant<Check *, Failure> ask(const PreparedRule &rule, std::string_view client_key,
                                       CheckListener &listener, Time now);

    /// The check's listener is no longer there.
    void abandon(Check &check);

    /// The transport is connected.
    void connected();

    enum class Progress {
        more,   // as it should be
        ready,  // the connection has just become ready
        broken, // to be closed, for the reason in problem()
    };
    Progress received(std::string_view bytes, Time now);

    /// What was wrong: our words, and the words of Redis where there are some. Unescaped. Valid
    /// until the transport is connected again.
    struct Problem {
        std::string_view what;
        std::string redis_said; // a copy: the next reply takes the reader's memory
    };
    const Problem &problem() const { return problem_; }

    /// The transport is closed, or could not be opened: what was sent fails, and what waits for
    /// a connection goes on waiting only if `lost` is `in_use`.
    enum class Lost {
        in_use,      // a connection that worked; a new one is to be expected
        unreachable, // no connection came about, or Redis no longer answers on it
    };
    void disconnected(Lost lost);

    /// Fails the checks whose deadline has come. True: the oldest command has been unanswered for
    /// so long that the connection is to be given up.
    bool expire(Time now);

    /// When expire() is to be called next, if ever.
    std::optional<Time> next_expiry() const;

    ByteQueue &output() { return output_; }

    bool is_ready() const { return state_ == State::ready; }
    bool has_waiting() const { return !waiting_.empty(); }
    size_t pending() const { return pending_; }
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
    bool send(Check &check, Time now);
    void send_waiting(Time now);
    Progress take_login_reply(const Reply &reply, Time now);
    Progress take_check_reply(const Reply &reply, Time now);
    Progress take_check_error(Check &check, std::string_view error, Time now);
    Progress broken(std::string_view what, std::string_view redis_said = {});
    void finish(Check &check, const CheckResult &result);
    void tell(CheckListener *listener, const CheckResult &result);
    Check *new_check();
    void recycle(Check &check);

    const SessionSettings settings_;
    State state_ = State::closed;
    bool unreachable_ = false; // as the last attempt showed, until one has become ready
    std::vector<std::string_view> login_commands_; // their names, in order
    std::string login_;                            // the same in wire form
    size_t login_replies_ = 0;
    ByteQueue output_;
    ReplyReader reader_;
    Problem problem_;
    size_t pending_ = 0;
    Counters counters_;
    IntrusiveList<Check, &Check::waiting_hook> waiting_;
    IntrusiveList<Check, &Check::unanswered_hook> unanswered_;
    std::unique_ptr<Check> all_; // a chain by `older`
    Check *spare_ = nullptr;     // those not in use: a stack by `next_spare`
};

} // namespace redis_client
