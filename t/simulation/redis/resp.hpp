// The protocol of Redis, as a server speaks it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace simulation {

/// Takes the words of the command at the front of `bytes`, which moves on. Returns nothing if it is
/// not there as a whole.
std::optional<std::vector<std::string_view>> take_command(std::string_view &bytes);

/// Returns the keys of a command that has at least one word.
std::span<const std::string_view> keys_of(std::span<const std::string_view> words);

std::string error_reply(std::string_view text);
std::string status_reply(std::string_view text);
std::string bulk_reply(std::string_view text);
std::string number_reply(int64_t number);
/// A list of replies.
std::string list_reply(std::span<const std::string> replies);
inline constexpr std::string_view nil_reply = "$-1\r\n";
inline constexpr std::string_view nil_list_reply = "*-1\r\n";

} // namespace simulation
