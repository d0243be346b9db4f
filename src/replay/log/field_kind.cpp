#include "replay/log/field_kind.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace replay {

namespace {

/// The size of a time, and the signs between its numbers.
struct Layout {
    size_t size;
    std::array<std::pair<size_t, char>, 6> signs;
};
constexpr Layout layout_of_local{
    .size = std::string_view("25/Nov/2026:10:00:00 +0100").size(),
    .signs = {{{2, '/'}, {6, '/'}, {11, ':'}, {14, ':'}, {17, ':'}, {20, ' '}}}};
constexpr Layout layout_of_iso8601{
    .size = std::string_view("2026-11-25T10:00:00+01:00").size(),
    .signs = {{{4, '-'}, {7, '-'}, {10, 'T'}, {13, ':'}, {16, ':'}, {22, ':'}}}};
constexpr std::string_view socket_prefix = "unix:";
constexpr size_t most_decimals = 6;

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_blank(char c) {
    return c == ' ';
}

bool is_empty(std::string_view written) {
    return written.empty() || written == "-";
}

bool is_whole_number(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, is_digit);
}

bool is_decimal(std::string_view text) {
    const size_t point = text.find('.');
    if (point == std::string_view::npos) {
        return is_whole_number(text);
    }
    const std::string_view decimals = text.substr(point + 1);
    return is_whole_number(text.substr(0, point)) && decimals.size() <= most_decimals &&
           is_whole_number(decimals);
}

bool is_status(std::string_view text) {
    return text.size() == 3 && is_whole_number(text);
}

bool is_of_method(char c) {
    return (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
}

bool is_word(std::string_view text) {
    return std::ranges::none_of(text, is_blank);
}

/// inet_pton() would take most of the time of a line.
bool is_v4_address(std::string_view text) {
    constexpr unsigned most = 255;
    unsigned number = 0;
    unsigned digits = 0;
    unsigned points = 0;
    for (const char c : text) {
        if (is_digit(c)) {
            number = number * 10 + static_cast<unsigned>(c - '0');
            ++digits;
        } else {
            ++points;
            number = c == '.' && digits > 0 ? 0 : most + 1;
            digits = 0;
        }
        if (number > most) {
            return false;
        }
    }
    return points == 3 && digits > 0;
}

bool is_address(std::string_view text) {
    if (text.find(':') == std::string_view::npos) {
        return is_v4_address(text);
    }
    if (text.starts_with(socket_prefix)) {
        return is_word(text);
    }
    std::array<char, INET6_ADDRSTRLEN> address{};
    if (text.size() >= address.size()) {
        return false;
    }
    std::ranges::copy(text, address.begin());
    in6_addr bytes{};
    return inet_pton(AF_INET6, address.data(), &bytes) == 1;
}

/// The numbers between the signs are looked at when the time is read.
bool has_layout(std::string_view text, const Layout &layout) {
    return text.size() == layout.size &&
           std::ranges::all_of(
               layout.signs, [text](const auto &sign) { return text[sign.first] == sign.second; });
}

bool is_protocol(std::string_view text) {
    constexpr std::string_view name = "HTTP/";
    return text.starts_with(name) && is_decimal(text.substr(name.size()));
}

bool is_request(std::string_view text, Reading reading) {
    if (is_empty(text) || reading == Reading::any_request) {
        return true;
    }
    const size_t end_of_method = text.find(' ');
    if (end_of_method == std::string_view::npos || end_of_method == 0 ||
        !std::ranges::all_of(text.substr(0, end_of_method), is_of_method)) {
        return false;
    }
    const std::string_view rest = text.substr(end_of_method + 1);
    const size_t last_space = rest.rfind(' ');
    if (last_space == std::string_view::npos) { // HTTP/0.9
        return reading == Reading::spaces_in_uris && !rest.empty();
    }
    const std::string_view uri = rest.substr(0, last_space);
    return is_protocol(rest.substr(last_space + 1)) && !uri.empty() &&
           (reading == Reading::spaces_in_uris || is_word(uri));
}

/// Whether the text is a list as nginx makes it of several upstreams. Behind a redirect inside
/// nginx, ` : `, nothing may follow.
template <typename IsElement>
bool is_list(std::string_view text, IsElement is_element) {
    constexpr std::string_view next = ", ";
    constexpr std::string_view redirected = " : ";
    if (is_empty(text)) {
        return true;
    }
    while (true) {
        const std::string_view element = text.substr(0, text.find_first_of(", "));
        text.remove_prefix(element.size());
        const bool is_absent = element == "-" || (element.empty() && text.starts_with(redirected));
        if (!is_absent && !is_element(element)) {
            return false;
        }
        if (text.empty()) {
            return true;
        }
        if (text == redirected) {
            return true;
        }
        if (!text.starts_with(next) && !text.starts_with(redirected)) {
            return false;
        }
        text.remove_prefix(text.starts_with(next) ? next.size() : redirected.size());
    }
}

bool is_word_of_list(std::string_view text) {
    return !text.empty();
}

constexpr size_t word_size = sizeof(uint64_t);

/// Returns how many characters at the beginning of the text surely are neither quotes, backslashes
/// nor control characters. They are looked at eight at a time: a line has some hundred of them.
size_t size_of_plain_text(std::string_view text) {
    constexpr uint64_t ones = 0x0101010101010101;
    constexpr uint64_t highest_bits = ones * 0x80;
    const auto has_less = [](uint64_t word, uint64_t than) { // in any of its bytes, up to 0x80
        return ((word - ones * than) & ~word & highest_bits) != 0;
    };
    size_t size = 0;
    for (; size + word_size <= text.size(); size += word_size) {
        uint64_t word;
        std::memcpy(&word, text.data() + size, word_size);
        if (has_less(word, ' ') || has_less(word ^ ones * '"', 1) ||
            has_less(word ^ ones * '\\', 1)) {
            break;
        }
    }
    return size;
}

constexpr std::array<uint8_t, 256> make_classes() {
    std::array<uint8_t, 256> classes{};
    for (size_t i = 0; i < classes.size(); ++i) {
        const char c = static_cast<char>(i);
        const bool is_of_number = (c >= '0' && c <= '9') || c == '.' || c == '-';
        const bool is_hex =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        const bool is_unquoted = i >= ' ' && c != '"';
        classes[i] = static_cast<uint8_t>(
            Characters::any | (is_unquoted ? Characters::unquoted : 0) |
            (is_unquoted && c != ' ' ? Characters::of_word : 0) |
            (is_hex || c == '.' || c == ':' || c == '-' ? Characters::of_address : 0) |
            (is_of_number ? Characters::of_number : 0) |
            (is_of_number || c == ',' || c == ':' || c == ' ' ? Characters::of_number_list : 0));
    }
    return classes;
}

Characters::Class class_of(FieldKind kind, Escapes escapes) {
    switch (kind) {
    case FieldKind::word:
    case FieldKind::method:
        return Characters::of_word;
    case FieldKind::address:
        return Characters::of_address;
    case FieldKind::whole_number:
    case FieldKind::decimal:
    case FieldKind::decided:
    case FieldKind::status:
        return Characters::of_number;
    case FieldKind::statuses:
    case FieldKind::decimals:
    case FieldKind::whole_numbers:
        return Characters::of_number_list;
    case FieldKind::text:
    case FieldKind::time_local:
    case FieldKind::time_iso8601:
    case FieldKind::request:
    case FieldKind::uri:
    case FieldKind::words:
        break;
    }
    return escapes == Escapes::none ? Characters::any : Characters::unquoted;
}

} // namespace

FieldKind kind_of(std::string_view variable) {
    constexpr std::pair<std::string_view, FieldKind> kinds[] = {
        {"args", FieldKind::uri},
        {"body_bytes_sent", FieldKind::whole_number},
        {"bytes_sent", FieldKind::whole_number},
        {"connection", FieldKind::whole_number},
        {"connection_requests", FieldKind::whole_number},
        {"content_length", FieldKind::whole_number},
        {"host", FieldKind::word},
        {"hostname", FieldKind::word},
        {"https", FieldKind::word},
        {"limit_conn_status", FieldKind::word},
        {"limit_req_status", FieldKind::word},
        {"msec", FieldKind::decimal},
        {"nginx_version", FieldKind::word},
        {"pid", FieldKind::whole_number},
        {"pipe", FieldKind::word},
        {"proxy_host", FieldKind::word},
        {"proxy_port", FieldKind::whole_number},
        {"proxy_protocol_addr", FieldKind::address},
        {"proxy_protocol_port", FieldKind::whole_number},
        {"proxy_protocol_server_addr", FieldKind::address},
        {"proxy_protocol_server_port", FieldKind::whole_number},
        {"query_string", FieldKind::uri},
        {"realip_remote_addr", FieldKind::address},
        {"realip_remote_port", FieldKind::whole_number},
        {"redis_rate_limit_decided", FieldKind::decided},
        {"remote_addr", FieldKind::address},
        {"remote_port", FieldKind::whole_number},
        {"request", FieldKind::request},
        {"request_completion", FieldKind::word},
        {"request_id", FieldKind::word},
        {"request_length", FieldKind::whole_number},
        {"request_method", FieldKind::method},
        {"request_time", FieldKind::decimal},
        {"request_uri", FieldKind::uri},
        {"scheme", FieldKind::word},
        {"server_addr", FieldKind::address},
        {"server_name", FieldKind::word},
        {"server_port", FieldKind::whole_number},
        {"server_protocol", FieldKind::word},
        {"ssl_cipher", FieldKind::word},
        {"ssl_protocol", FieldKind::word},
        {"ssl_session_reused", FieldKind::word},
        {"status", FieldKind::status},
        {"time_iso8601", FieldKind::time_iso8601},
        {"time_local", FieldKind::time_local},
        {"upstream_addr", FieldKind::words},
        {"upstream_bytes_received", FieldKind::whole_numbers},
        {"upstream_bytes_sent", FieldKind::whole_numbers},
        {"upstream_cache_status", FieldKind::word},
        {"upstream_connect_time", FieldKind::decimals},
        {"upstream_header_time", FieldKind::decimals},
        {"upstream_response_length", FieldKind::whole_numbers},
        {"upstream_response_time", FieldKind::decimals},
        {"upstream_status", FieldKind::statuses},
    };
    static_assert(std::ranges::is_sorted(kinds));
    const auto *const found =
        std::ranges::lower_bound(kinds, variable, {}, [](const auto &one) { return one.first; });
    if (found != std::end(kinds) && found->first == variable) {
        return found->second;
    }
    constexpr std::pair<std::string_view, FieldKind> beginnings[] = {
        {"arg_", FieldKind::uri},
        {"redis_rate_limit_", FieldKind::word},
    };
    for (const auto &[beginning, kind] : beginnings) {
        if (variable.starts_with(beginning)) {
            return kind;
        }
    }
    return FieldKind::text;
}

bool can_be(FieldKind kind, std::string_view written, Reading reading) {
    switch (kind) {
    case FieldKind::text:
        return true;
    case FieldKind::word:
        return is_word(written);
    case FieldKind::method:
        return std::ranges::all_of(written, is_of_method);
    case FieldKind::address:
        return is_empty(written) || is_address(written);
    case FieldKind::whole_number:
        return is_empty(written) || is_whole_number(written);
    case FieldKind::decimal:
        return is_decimal(written);
    case FieldKind::decided:
        return is_empty(written) || is_decimal(written);
    case FieldKind::status:
        return is_status(written);
    case FieldKind::time_local:
        return has_layout(written, layout_of_local);
    case FieldKind::time_iso8601:
        return has_layout(written, layout_of_iso8601);
    case FieldKind::request:
        return is_request(written, reading);
    case FieldKind::uri:
        return reading != Reading::usual || is_word(written);
    case FieldKind::statuses:
        return is_list(written, is_status);
    case FieldKind::decimals:
        return is_list(written, is_decimal);
    case FieldKind::whole_numbers:
        return is_list(written, is_whole_number);
    case FieldKind::words:
        break;
    }
    return is_list(written, is_word_of_list);
}

size_t size_of_all(FieldKind kind) {
    switch (kind) {
    case FieldKind::status:
        return 3;
    case FieldKind::time_local:
        return layout_of_local.size;
    case FieldKind::time_iso8601:
        return layout_of_iso8601.size;
    default:
        return 0;
    }
}

bool is_of_socket(FieldKind kind, std::string_view written) {
    return kind == FieldKind::address && written.starts_with(socket_prefix);
}

constexpr std::array<uint8_t, 256> Characters::classes = make_classes();

Characters::Characters(FieldKind kind, Escapes escapes)
    : class_(class_of(kind, escapes)),
      is_json_text_(escapes == Escapes::json && class_ == unquoted) {}

size_t Characters::end_in(std::string_view line, size_t begin) const {
    const bool is_socket = class_ == of_address && line.substr(begin).starts_with(socket_prefix);
    const unsigned in_value = is_socket ? of_word : class_;
    size_t end = begin;
    while (end < line.size()) {
        if (class_ == unquoted) {
            end += size_of_plain_text(line.substr(end));
        }
        const size_t word_end = std::min(end + word_size, line.size());
        while (end < word_end) {
            if (is_json_text_ && line[end] == '\\') { // what it escapes belongs to the value
                end = std::min(end + 2, line.size());
            } else if ((classes[static_cast<unsigned char>(line[end])] & in_value) != 0) {
                ++end;
            } else {
                return end;
            }
        }
    }
    return end;
}

} // namespace replay
