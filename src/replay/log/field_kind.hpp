// What the value of a variable can be in a line of a log, so that a line can be taken apart where
// separators stand inside values, too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace replay {

/// How nginx writes what would end a value: `"` as `\x22`, or as `\"` in JSON, or as it is.
enum class Escapes { usual, json, none };

enum class FieldKind {
    text,          // what clients and upstreams send, and variables that are not known here
    word,          // without spaces
    method,        // a word of capital letters, `_` and `-`
    address,       // of IPv4 or IPv6, or `unix:`
    whole_number,  // such as a size or a port
    decimal,       // seconds; always there
    decided,       // seconds, if something was decided
    status,        // three digits; always there
    time_local,    // 25/Nov/2026:10:00:00 +0100
    time_iso8601,  // 2026-11-25T10:00:00+01:00
    request,       // a request line, or what a client sent in its place
    uri,           // or a part of one, as a client sent it
    statuses,      // of the upstreams that were asked one after the other: a list, whose
    decimals,      // separators are `, ` and, behind a redirect, ` : `
    whole_numbers, //
    words,         //
};

/// Returns what the values of a variable are. Its name is in small letters.
FieldKind kind_of(std::string_view variable);

/// What may be taken for a request or a URI. nginx refuses requests with spaces in the URI since
/// 1.21.1, and logs what a client sent that speaks no HTTP: both are looked for in lines that can
/// be read in no other way.
enum class Reading { usual, spaces_in_uris, any_request };

/// Whether nginx may write the value so. An empty one is `-` or nothing.
bool can_be(FieldKind kind, std::string_view written, Reading reading);

/// Whether the value is that of a client or server at a socket of this host: its path may hold what
/// no other address does.
bool is_of_socket(FieldKind kind, std::string_view written);

/// The characters of which values of a kind are written.
class Characters {
  public:
    Characters(FieldKind kind, Escapes escapes);

    bool are_of_text() const { return class_ == unquoted || class_ == any; }
    bool has(char c) const { return (classes[static_cast<unsigned char>(c)] & class_) != 0; }
    /// Returns the end of the longest value that may begin at a place of the line.
    size_t end_in(std::string_view line, size_t begin) const;

    /// The classes of characters, each a bit.
    enum Class : uint8_t {
        any = 1,
        unquoted = 2, // no `"`, and nothing that nginx escapes
        of_word = 4,
        of_address = 8,
        of_number = 16,
        of_number_list = 32,
    };

  private:
    static const std::array<uint8_t, 256> classes;

    Class class_;
    bool is_json_text_;
};

/// Returns the number of characters that all values of the kind have, or 0 if they differ.
size_t size_of_all(FieldKind kind);

} // namespace replay
