// The commands that run our scripts. Each function writes one, and returns false without memory:
// then nothing was written.
#pragma once

#include "byte_queue.hpp"
#include "check.hpp"
#include "script.hpp"

#include <span>

namespace redis_client {

/// A script by its name, or in full.
enum class Sending { by_name, in_full };

/// The shape of a check of these charges.
ScriptShape shape_of(std::span<const Charge> charges);

/// A check, and those that follow it in its run; their charges have the arguments of its own.
bool write_checks(ByteQueue &out, const Script &script, Sending sending, const Command &first);

bool write_release(ByteQueue &out, const Script &script, Sending sending, const Permit &permit);

/// In full: a refund that Redis does not know by its name could not be asked for again.
bool write_refund(ByteQueue &out, const Script &script, const Charge &charge);

/// In full, for as many permits as there are.
bool write_renewal(ByteQueue &out, const Script &script, std::span<Permit *const> permits);

} // namespace redis_client
