// Holds how long a key of Redis lives against how long what it holds counts: SPEC section 5. It
// knows nothing of the scripts but that they can be asked.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace simulation {

/// What a script answers when Redis's clock shows that time, if the key has not expired then.
using AnswerAt = std::function<std::string(int64_t clock_us)>;

/// Returns whether a key that expires then has a state that counts in the five seconds before. A
/// state that does not is answered the same at any time, by windows that begin alike.
bool is_forgotten_too_early(int64_t expires_us, int64_t window_us, const AnswerAt &answer_at);

/// Returns after which time the windows of all these keys begin as they do now. Returns nothing if
/// that is too far away, or if calendars say it.
std::optional<int64_t> common_window_us(std::span<const std::string_view> redis_keys);

/// Whether the key holds permits. Where a clock has stepped back, they would count for more than a
/// window: who still has one has renewed it by then, and the key may go.
bool is_of_permits(std::string_view redis_key);

/// Whether the key is that of a bucket. One that is not there begins with a number of its own,
/// which differs from time to time.
bool is_of_bucket(std::string_view redis_key);

} // namespace simulation
