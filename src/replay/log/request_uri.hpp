// The request line, and the path by which nginx chooses a location.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace replay {

/// The parts of `GET /path?arguments HTTP/1.1`. The URI is as the client sent it.
struct RequestLine {
    std::string_view method;
    std::string_view uri;
    std::string_view protocol;
};

/// Returns nothing for a line that is no request, as that of a client that speaks TLS to a port
/// without it.
std::optional<RequestLine> read_request_line(std::string_view line);

/// Returns the small letter of one of A to Z, and any other character as it is.
constexpr char small_letter(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

/// Returns what stands behind the first `?`, without a fragment.
std::string_view arguments_of(std::string_view uri);

/// Returns the value of one argument, as `$arg_NAME` has it: not decoded, and the name's case does
/// not matter. It is empty if there is none.
std::string_view argument_of(std::string_view arguments, std::string_view name);

/// Writes the path as nginx normalises it: decoded, without `.` and `..`, and with one slash in the
/// place of several. Returns nothing if nginx answers such a URI with 400.
std::optional<std::string_view> normalised_path(std::string_view uri, std::string &buffer);

} // namespace replay
