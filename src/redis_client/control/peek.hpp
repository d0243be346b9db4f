// Reads the state of a counter as a check would find it, without a charge.
#pragma once

#include "rate_limit/rule/rule.hpp"
#include "rate_limit/rule/verdict.hpp"
#include "redis_client/script/script.hpp"
#include "redis_client/wire/byte_queue.hpp"
#include "redis_client/wire/reply_tree.hpp"

#include <chrono>
#include <optional>
#include <string_view>

namespace redis_client {

/// Makes the scripts of peeks, which are kept from then on. Without this the first peek makes them.
void prepare_peeks();

/// Writes one command. Returns false if memory ran out; then nothing was written. `blocks` says
/// whether the rule has a `block`, and `unix_now` is the time of this host's clock.
bool write_peek(ByteQueue &out, rate_limit::Quota quota, bool aligned, std::string_view redis_key,
                Blocks blocks, std::chrono::microseconds unix_now);

/// Reads the reply, which is no error. The verdict is that on a request of the quota's cost, and
/// nothing is taken of what is left. Returns nothing if no state of the counter leads to the reply.
std::optional<rate_limit::Verdict> read_peek(ReplyView reply, const rate_limit::Quota &quota,
                                             Blocks blocks);

} // namespace redis_client
