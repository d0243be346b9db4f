// What the parameters of the directive `redis_rate_limit_zone` say.
#pragma once

#include "rate_limit/text/parameters.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rate_limit {

/// What a rule does to a request for which Redis gave no verdict in time.
enum class OnError { local, open, closed };

/// What is shown of a zone's keys, in logs and among the top keys.
enum class ShowKeys { on, hash, off };

inline constexpr std::string_view default_backend = "default";

struct ZoneParameters {
    std::string name;
    size_t size = 0;          // the size of its shared memory, in bytes
    std::string backend_name; // empty: the one named `default`
    OnError on_error = OnError::local;
    uint64_t local_limit_percent = 100;           // this host's part of limits without Redis
    std::chrono::milliseconds deny_cache{60'000}; // how long a denial is known; 0: never
    bool has_top_keys = true;                     // whether the keys rejected most are counted
    ShowKeys show_keys = ShowKeys::on;
};

/// Reads the directive's words without its name: the key, which stays as it is, and the parameters.
Refusal read_zone(std::span<const std::string_view> words, ZoneParameters &zone);

/// The variables of nginx that have a client's address: as text, and in bytes, which are no text.
inline constexpr std::string_view variable_of_address = "remote_addr";
inline constexpr std::string_view variable_of_bytes = "binary_remote_addr";

/// Returns the name of the variable that the text consists of, `$name` or `${name}`, in lower case.
/// If anything stands beside it, it is a part of what is returned, and so that is no name. Returns
/// an empty text if there is no variable.
std::string variable_in(std::string_view text);

/// Whether the text may be the name of a variable: it consists of letters, digits and `_`.
bool is_variable_name(std::string_view text);

/// Whether the text has variables, and all of them have texts.
bool has_text_variables(std::string_view text);

} // namespace rate_limit
