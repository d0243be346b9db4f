// The commands of a session that are on their way to Redis, and the order in which their replies
// come.
#pragma once

#include "redis_client/intrusive_list.hpp"
#include "redis_client/session/check.hpp"
#include "redis_client/session/session_group.hpp"
#include "redis_client/wire/byte_queue.hpp"

#include <cstddef>

namespace redis_client {

class Pipeline {
  public:
    Pipeline(SessionGroup &group, Session &owner) : group_(group), owner_(owner) {}
    Pipeline(const Pipeline &) = delete;
    Pipeline &operator=(const Pipeline &) = delete;

    /// Whether commands can be sent: a connection is there, and the login is done.
    bool is_open() const { return is_open_; }
    void open();
    /// Nothing more goes out. The commands that were sent are still to be taken by take_answered().
    void close();

    /// Returns a new command of the session, or null if memory ran out.
    Command *new_command(Command::Kind kind);
    void recycle(Command &command);
    /// One of the commands is no longer the session's: another session is to take it over.
    void let_go();
    /// Takes over such a command of another session. It counts as not sent.
    void take_over(Command &command);
    /// How many commands the session has, sent or not.
    size_t pending() const { return pending_; }

    /// Sends a batch of checks, a release, or settlements. Returns false if memory ran out; then
    /// nothing was sent.
    bool send(Command &first, Time now);
    /// Lets the next command ask a node to which its hash slot moves. Returns false as send().
    bool send_asking(Time now);
    /// The command was written to the output, and its reply is expected from here on.
    void queue(Command &first, Time now);

    /// The first command of the batch whose reply comes next, or null.
    Command *next_to_answer() const;
    /// The same, and no reply is expected for it any longer.
    Command *take_answered();

    ByteQueue &output() { return output_; }
    const ByteQueue &output() const { return output_; }

  private:
    SessionGroup &group_;
    Session &owner_;
    bool is_open_ = false;
    size_t pending_ = 0;
    ByteQueue output_;
    IntrusiveList<Command, &Command::sending_hook> to_answer_; // the first of each batch
};

} // namespace redis_client
