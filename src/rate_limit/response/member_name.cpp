#include "rate_limit/response/member_name.hpp"

#include "rate_limit/text/url_text.hpp"

#include <bit>
#include <optional>
#include <string_view>

namespace rate_limit {

namespace {

/// Returns what an escape other than `\u` stands for. An unknown one stands for itself.
char unescaped(char c) {
    switch (c) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return c;
    }
}

} // namespace

void MemberName::begin(const JsonPaths &paths, size_t depth, PathSet candidates) {
    *this = {};
    same_ = candidates & paths.level(depth).members;
    any_ = candidates & paths.level(depth).any_member;
    depth_ = static_cast<uint8_t>(depth);
}

/// Keeps the paths whose name is as `is_same` says.
template <typename IsSame>
void MemberName::keep_same(const JsonPaths &paths, IsSame is_same) {
    for (PathSet left = same_; left != 0; left &= left - 1) {
        const int path = std::countr_zero(left);
        if (!is_same(paths[path].steps[depth_].name)) {
            same_ &= ~(PathSet{1} << path);
        }
    }
}

bool MemberName::take(const JsonPaths &paths, char c) {
    if (stage_ == Stage::escape) {
        take_escaped(paths, c);
        return true;
    }
    if (stage_ == Stage::hex) {
        if (const auto digit = hex_digit(c)) {
            take_hex(paths, *digit);
            return true;
        }
        same_ = 0; // no escape, so that the name is none that could be written
        stage_ = Stage::plain;
    }
    if (c == '\\') {
        stage_ = Stage::escape;
        return true;
    }
    if (high_surrogate_ != 0) {
        same_ = 0;
    }
    if (c != '"') {
        compare(paths, c);
        return true;
    }
    keep_same(paths, [this](std::string_view name) { return name.size() == size_; });
    return false;
}

void MemberName::take_escaped(const JsonPaths &paths, char c) {
    if (c == 'u') {
        stage_ = Stage::hex;
        hex_digits_ = 4;
        return;
    }
    stage_ = Stage::plain;
    if (high_surrogate_ != 0) {
        same_ = 0;
    }
    compare(paths, unescaped(c));
}

void MemberName::take_hex(const JsonPaths &paths, uint32_t digit) {
    code_unit_ = static_cast<uint16_t>(code_unit_ << 4 | digit);
    if (--hex_digits_ == 0) {
        stage_ = Stage::plain;
        take_code_unit(paths);
    }
}

/// Half a pair stands for no character, and no path has it in a name.
void MemberName::take_code_unit(const JsonPaths &paths) {
    const bool is_high = code_unit_ >= 0xd800 && code_unit_ < 0xdc00;
    const bool is_low = code_unit_ >= 0xdc00 && code_unit_ < 0xe000;
    if (is_low != (high_surrogate_ != 0)) {
        same_ = 0;
    }
    if (is_high) {
        high_surrogate_ = code_unit_;
        return;
    }
    const uint32_t pair = 0x10000 + ((high_surrogate_ - 0xd800U) << 10) + (code_unit_ - 0xdc00U);
    compare_character(paths, is_low ? pair : code_unit_);
    high_surrogate_ = 0;
}

/// Compares its bytes in UTF-8.
void MemberName::compare_character(const JsonPaths &paths, uint32_t character) {
    const auto following = [&](int shift) {
        compare(paths, static_cast<char>(0x80 | (character >> shift & 0x3f)));
    };
    if (character < 0x80) {
        compare(paths, static_cast<char>(character));
    } else if (character < 0x800) {
        compare(paths, static_cast<char>(0xc0 | character >> 6));
        following(0);
    } else if (character < 0x10000) {
        compare(paths, static_cast<char>(0xe0 | character >> 12));
        following(6);
        following(0);
    } else {
        compare(paths, static_cast<char>(0xf0 | character >> 18));
        following(12);
        following(6);
        following(0);
    }
}

void MemberName::compare(const JsonPaths &paths, char c) {
    if (size_ == 0) {
        same_ &= paths.level(depth_).first_bytes[static_cast<unsigned char>(c)];
    } else {
        keep_same(paths,
                  [&](std::string_view name) { return size_ < name.size() && name[size_] == c; });
    }
    if (same_ != 0) { // which bounds it by the longest name of a path
        ++size_;
    }
}

} // namespace rate_limit
