// Percent-encoded text of URLs, and bytes of any kind as text that can be shown.
#pragma once

#include "rate_limit/text/text_writer.hpp"

#include <optional>
#include <span>
#include <string_view>

namespace rate_limit {

/// Returns the value of a hex digit, or nothing if it is none.
std::optional<unsigned> hex_digit(char c);

/// Decodes a name or a value of a URL's query, in which `%2F` stands for a byte and a plus for
/// itself. `out` must have room for as many bytes as the text has. Returns its part of `out`, or
/// nothing if two hex digits are missing behind a `%`.
std::optional<std::string_view> decode_percent(std::string_view text, std::span<char> out);

/// Is written so that it can be a value in a URL's query: all but the unreserved characters of
/// RFC 3986 are percent-encoded.
struct UrlEncoded {
    std::string_view bytes;
};
TextWriter &operator<<(TextWriter &out, UrlEncoded encoded);

/// Is written as UTF-8 that can be shown, with at most `most` bytes. Control characters,
/// backslashes, and bytes that are no part of UTF-8 are written in the form `\x1b`, and so are
/// characters that turn the order of others round, unless they are to be kept: a text that is
/// edited where it is shown would change by that. What would be more than `most` bytes is cut
/// between two characters.
struct Readable {
    std::string_view bytes;
    size_t most;
    bool keeps_order_marks = false;
};
TextWriter &operator<<(TextWriter &out, Readable readable);

/// Whether the text is valid UTF-8, by RFC 3629.
bool is_utf8(std::string_view text);

} // namespace rate_limit
