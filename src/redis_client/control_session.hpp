// Commands that are no checks: those of the operator's API, and the questions for what operators
// have changed. They go over a connection of their own, so that no check waits behind them, and
// their replies may have any shape.
#pragma once

#include "byte_queue.hpp"
#include "reply_tree.hpp"
#include "session_group.hpp"

#include <cstddef>
#include <string_view>

namespace redis_client {

/// A command on its way. Its owner is whoever asks; it stays where it is until it is answered, has
/// failed, or is cancelled.
class ControlCommand {
  public:
    /// Writes the command, when a connection is ready, and once more after a redirect. Returns
    /// false if memory ran out.
    virtual bool write(ByteQueue &out) const = 0;
    /// The reply, which may be an error. The command is gone, and may be sent anew.
    virtual void on_reply(ReplyView reply) = 0;
    /// There will be no reply. If it was sent, nobody knows whether Redis has run it.
    virtual void on_failure(bool was_sent, std::string_view what, std::string_view detail) = 0;

    uint16_t hash_slot = 0; // of a cluster: that of all its keys

  protected:
    ~ControlCommand() = default;
};

} // namespace redis_client
