// The commands that run our scripts. Each function writes one command, and returns false if memory
// ran out; then nothing was written.
#pragma once

#include "redis_client/io/unix_clock.hpp"
#include "redis_client/script/script.hpp"
#include "redis_client/session/check.hpp"
#include "redis_client/wire/byte_queue.hpp"

#include <span>

namespace redis_client {

/// A command names a script, or has all of its text.
enum class Sending { by_name, in_full };

/// Returns the shape of a check of these charges.
ScriptShape shape_of(std::span<const Charge> charges);

/// Writes a check, and those that follow it in its batch, whose charges have the same arguments.
/// The clock is that of this host, as for settlements below.
bool write_checks(ByteQueue &out, const Script &script, Sending sending, const Command &first,
                  const UnixClock &clock);

bool write_release(ByteQueue &out, const Script &script, Sending sending, const Permit &permit);

/// Writes the script in full, for all of these permits.
bool write_renewal(ByteQueue &out, const Script &script, std::span<Permit *const> permits);

/// Writes a command of settlements, of one kind and algorithm.
bool write_settlements(ByteQueue &out, const Script &script, Sending sending,
                       const SettlementList &settlements, const UnixClock &clock);

} // namespace redis_client
