// Commands that are no checks: those of the operator's API, and the questions for what operators
// have changed. They go over a connection of their own, so that no check waits behind them, and
// their replies may have any shape.
//
// Like a Session, this one knows no sockets: the owner of the transport tells it what happened,
// gives it the bytes that came and sends the bytes of output().
#pragma once

#include "redis_client/fault.hpp"
#include "redis_client/session/login.hpp"
#include "redis_client/session/session_group.hpp"
#include "redis_client/wire/byte_queue.hpp"
#include "redis_client/wire/redirect_error.hpp"
#include "redis_client/wire/reply_tree.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace redis_client {

/// A command on its way. Its owner is whoever asks; it stays where it is until it is answered, has
/// failed, or is cancelled.
class ControlCommand {
  public:
    /// How long it may take, from begin() on, unless begin() says otherwise.
    static constexpr std::chrono::milliseconds timeout{2000};

    /// Must be called before the command is run.
    void begin(Time now, std::chrono::milliseconds within = timeout) {
        deadline_ = now + within;
        redirects_ = 0;
        needs_asking_ = false;
    }
    Time deadline() const { return deadline_; }

    /// Writes the command, when a connection is ready, and once more after a redirect. Returns
    /// false if memory ran out.
    virtual bool write(ByteQueue &out) const = 0;
    /// The reply, which may be an error. The command is gone, and may be run anew, or destroyed.
    virtual void on_reply(ReplyView reply) = 0;
    /// There will be no reply. If it was sent, nobody knows whether Redis has run it. The command
    /// is gone, as above.
    virtual void on_failure(bool was_sent, const Fault &fault) = 0;

    uint16_t hash_slot = 0;   // of a cluster: that of all its keys
    bool holds_worker = true; // a worker that shuts down waits for the answer

    /// Of a command that was answered: a number that each connection of this worker has alone.
    uint64_t connection() const { return connection_; }

  protected:
    ~ControlCommand() = default;

  private:
    friend class ControlSession;

    Time deadline_{0};
    int redirects_ = 0;
    bool needs_asking_ = false;
    uint64_t connection_ = 0;
};

class ControlSession {
  public:
    /// Finds the session of another cluster node, for redirects.
    class Redirects {
      public:
        /// The command no longer belongs to the session `from`; another one has to take it over.
        /// Returns false if there is none: then the session answers the command by the error.
        virtual bool redirect(const ControlSession &from, ControlCommand &command,
                              const Redirect &to) = 0;

      protected:
        ~Redirects() = default;
    };

    /// A page of changes has up to half of that.
    static constexpr size_t usual_longest_reply = size_t{1} << 20;

    /// Without `redirects` the Redis is not a node of a cluster. A longer reply breaks the
    /// connection.
    explicit ControlSession(const SessionSettings &settings, Redirects *redirects = nullptr,
                            size_t longest_reply = usual_longest_reply);
    ControlSession(const ControlSession &) = delete;
    ControlSession &operator=(const ControlSession &) = delete;

    /// Sends the command, or lets it wait for a connection.
    void run(ControlCommand &command);
    /// Does the same with a command that another node has redirected.
    void take_over(ControlCommand &command, Redirect::Kind kind);
    /// The command is about to go, and is not called back. Returns whether the session had it.
    bool cancel(const ControlCommand &command);

    void connected(); // the transport is

    using Progress = SessionProgress;
    Progress received(std::string_view bytes);

    /// What was wrong last.
    Fault problem() const { return {what_, detail_}; }

    /// The transport is closed. Commands that were sent fail, for that reason.
    void disconnected(const Fault &fault);
    /// No connection came about: commands that wait for one fail, for that reason.
    void fail_waiting(const Fault &fault);
    /// Fails the commands that wait and whose deadline has come. Returns true if one that was sent
    /// has had no answer for so long that the connection has to be given up.
    bool expire(Time now);
    /// When expire() is to be called next, if ever. It may be earlier than the first deadline, so
    /// that it costs nothing to find out.
    std::optional<Time> next_expiry() const;

    bool is_ready() const { return is_ready_; }
    bool has_waiting() const { return !waiting_.empty(); }
    /// Whether no command waits, or is on its way.
    bool is_idle() const { return waiting_.empty() && sent_.empty(); }
    /// Whether a worker that shuts down has to wait for an answer.
    bool holds_worker() const;
    ByteQueue &output() { return output_; }

  private:
    /// A command that was sent. It is null if nobody waits for its reply.
    struct Sent {
        ControlCommand *command;
        Time deadline;
    };

    std::optional<Time> first_deadline() const;
    void become_ready();
    Progress take_login_reply(ReplyView reply);
    Progress take_reply(ReplyView reply);
    void answer(ControlCommand &command, ReplyView reply);
    Progress broken(std::string_view what, std::string_view detail = {});

    Redirects *redirects_;
    Login login_;
    bool is_ready_ = false;
    uint64_t connection_ = 0;
    ReplyTreeReader reader_;
    ByteQueue output_;
    std::deque<ControlCommand *> waiting_; // for a connection
    std::deque<Sent> sent_;                // in the order in which the replies come
    std::deque<ControlCommand *> failing_; // while they are told
    std::optional<Time> earliest_;         // no deadline of a command comes before it
    std::string_view what_;
    std::string detail_;
};

} // namespace redis_client
