// The checks that a session is to send at the end of a turn of the event loop, and which of them go
// together in one batch.
#pragma once

#include "redis_client/intrusive_list.hpp"
#include "redis_client/script/script.hpp"
#include "redis_client/session/check.hpp"

namespace redis_client {

class SendQueue {
  public:
    void add(Command &check);
    void remove(Command &check);

    bool empty() const { return checks_.empty(); }
    /// The check that was added first, or null.
    Command *front() const { return checks_.front(); }

    /// Takes the first check off the queue, followed by those that can share its batch: a chain by
    /// Command::next_in_batch. The queue is not empty.
    Command &take_batch(const ScriptLibrary &scripts);

    /// Whether Redis takes the keys of several checks in one command.
    void set_shares_batches(bool shares) { shares_batches_ = shares; }
    bool shares_batches() const { return shares_batches_; }

  private:
    IntrusiveList<Command, &Command::sending_hook> checks_;
    bool shares_batches_ = true;
};

} // namespace redis_client
