#include "rate_limit/text/url_text.hpp"

#include <algorithm>
#include <cstdint>

namespace rate_limit {

namespace {

constexpr bool is_unreserved(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

/// Writes a byte as two hex digits behind `before`.
void write_byte(TextWriter &out, std::string_view before, char c, std::string_view digits) {
    const auto byte = static_cast<unsigned char>(c);
    out << before << digits.substr(byte >> 4, 1) << digits.substr(byte & 15, 1);
}

/// Returns the size of the UTF-8 character at the beginning of the text, or 0 if there is none. The
/// ranges are those of RFC 3629, section 4.
size_t size_of_character(std::string_view text) {
    const auto byte = [text](size_t i) {
        return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
    };
    const auto follow = [&](size_t from, size_t size) {
        for (size_t i = from; i < size; ++i) {
            if ((byte(i) & 0xC0U) != 0x80U) {
                return size_t{0};
            }
        }
        return size;
    };
    const unsigned first = byte(0);
    if (text.empty() || first < 0x80) {
        return text.empty() ? 0 : 1;
    }
    if (first >= 0xC2 && first <= 0xDF) {
        return follow(1, 2);
    }
    if (first >= 0xE0 && first <= 0xEF) {
        const unsigned least = first == 0xE0 ? 0xA0 : 0x80; // a shorter form would do
        const unsigned most = first == 0xED ? 0x9F : 0xBF;  // surrogates
        return byte(1) >= least && byte(1) <= most ? follow(2, 3) : 0;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        const unsigned least = first == 0xF0 ? 0x90 : 0x80;
        const unsigned most = first == 0xF4 ? 0x8F : 0xBF; // the end of Unicode
        return byte(1) >= least && byte(1) <= most ? follow(2, 4) : 0;
    }
    return 0;
}

/// Whether a character of UTF-8 is seen only in how it orders others, as U+202E, which writes them
/// backwards: Unicode's Bidi_Control, and the separators of lines and paragraphs.
bool is_order_mark(std::string_view character) {
    constexpr struct {
        uint32_t first;
        uint32_t last;
    } ranges[] = {
        {0xD8'9C, 0xD8'9C},       // U+061C
        {0xE2'80'8E, 0xE2'80'8F}, // U+200E and U+200F
        {0xE2'80'A8, 0xE2'80'AE}, // U+2028 to U+202E
        {0xE2'81'A6, 0xE2'81'A9}, // U+2066 to U+2069
    };
    uint32_t bytes = 0;
    for (const char c : character) {
        bytes = bytes << 8 | static_cast<unsigned char>(c);
    }
    return std::ranges::any_of(
        ranges, [bytes](const auto &range) { return bytes >= range.first && bytes <= range.last; });
}

/// Whether a character of UTF-8 is written as it is. C1 controls, which some terminals obey, have
/// two bytes.
bool is_shown(std::string_view character) {
    const auto first = static_cast<unsigned char>(character[0]);
    const bool is_c1_control = first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
    return first >= ' ' && first != 0x7F && first != '\\' && !is_c1_control;
}

} // namespace

std::optional<unsigned> hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    const char lower = static_cast<char>(c | 0x20);
    if (lower >= 'a' && lower <= 'f') {
        return lower - 'a' + 10;
    }
    return std::nullopt;
}

std::optional<std::string_view> decode_percent(std::string_view text, std::span<char> out) {
    size_t size = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out[size++] = text[i];
            continue;
        }
        const auto high = i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
        const auto low = high ? hex_digit(text[i + 2]) : std::nullopt;
        if (!low) {
            return std::nullopt;
        }
        out[size++] = static_cast<char>(*high << 4 | *low);
        i += 2;
    }
    return std::string_view(out.data(), size);
}

TextWriter &operator<<(TextWriter &out, UrlEncoded encoded) {
    for (const char &c : encoded.bytes) {
        if (is_unreserved(c)) {
            out << std::string_view(&c, 1);
        } else {
            write_byte(out, "%", c, "0123456789ABCDEF");
        }
    }
    return out;
}

TextWriter &operator<<(TextWriter &out, Readable readable) {
    constexpr size_t size_of_escape = 4;
    std::string_view left = readable.bytes;
    size_t room = readable.most;
    while (!left.empty()) {
        const size_t size = size_of_character(left);
        const std::string_view character = left.substr(0, size > 0 ? size : 1);
        const bool is_as_it_is = size > 0 && is_shown(character) &&
                                 (readable.keeps_order_marks || !is_order_mark(character));
        const size_t written = is_as_it_is ? size : character.size() * size_of_escape;
        if (written > room) {
            break;
        }
        room -= written;
        left.remove_prefix(character.size());
        if (is_as_it_is) {
            out << character;
            continue;
        }
        for (const char c : character) {
            write_byte(out, "\\x", c, "0123456789abcdef");
        }
    }
    return out;
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const size_t size = size_of_character(text);
        if (size == 0) {
            return false;
        }
        text.remove_prefix(size);
    }
    return true;
}

} // namespace rate_limit
