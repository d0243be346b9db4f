#include "rate_limit/response/json_scanner.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

namespace rate_limit {

namespace {

constexpr std::string_view null_text = "null";

bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/// Returns eight bytes of which the first one that is not 0 stands where the first `c` stands in
/// `bytes`, of a machine that is little-endian. The formula is Mycroft's: see "Determine if a word
/// has a zero byte" in Anderson's Bit Twiddling Hacks.
uint64_t first_of(char c, uint64_t bytes) {
    constexpr uint64_t ones = 0x0101010101010101;
    const uint64_t zero_where_same = bytes ^ (ones * static_cast<unsigned char>(c));
    return (zero_where_same - ones) & ~zero_where_same & (ones << 7);
}

/// Most bytes of answers are in strings, so that eight are looked at together.
const char *find_quote_or_backslash(const char *at, const char *end) {
    uint64_t bytes;
    if constexpr (std::endian::native == std::endian::little) {
        for (; end - at >= static_cast<ptrdiff_t>(sizeof bytes); at += sizeof bytes) {
            std::memcpy(&bytes, at, sizeof bytes);
            if (const uint64_t found = first_of('"', bytes) | first_of('\\', bytes)) {
                return at + std::countr_zero(found) / 8;
            }
        }
    }
    while (at != end && *at != '"' && *at != '\\') {
        ++at;
    }
    return at;
}

/// The bytes that end a number, or another scalar.
constexpr auto delimiters = [] {
    std::array<bool, 256> is_one{};
    for (const unsigned char c : {',', ':', '"', '[', ']', '{', '}', ' ', '\n', '\r', '\t'}) {
        is_one[c] = true;
    }
    return is_one;
}();

bool is_delimiter(char c) {
    return delimiters[static_cast<unsigned char>(c)];
}

} // namespace

void JsonScanner::begin_text() {
    depth_ = 0;
    arrays_ = 0;
    target_ = paths_.all();
    state_ = State::value;
}

PathSet JsonScanner::take_ignored() {
    return std::exchange(ignored_, 0);
}

void JsonScanner::scan(std::string_view bytes) {
    const char *at = bytes.data();
    const char *end = at + bytes.size();
    while (at != end) {
        if (is_between()) {
            take(*at++);
            continue;
        }
        switch (state_) {
        case State::scalar:
            at = scan_scalar(at, end);
            break;
        case State::string:
            at = scan_string(at, end, State::separator);
            break;
        case State::known_name:
            at = scan_name(at, end);
            break;
        case State::other_name:
            at = scan_string(at, end, State::colon);
            break;
        default:
            return; // the rest is passed over
        }
    }
}

const char *JsonScanner::scan_scalar(const char *at, const char *end) {
    const char *delimiter = std::find_if(at, end, is_delimiter);
    if (scalar_ != Scalar::unread) {
        std::for_each(at, delimiter, [this](char c) { take_scalar(c); });
    }
    if (delimiter != end) {
        end_scalar();
    }
    return delimiter;
}

const char *JsonScanner::scan_string(const char *at, const char *end, State behind) {
    if (is_escaped_) {
        is_escaped_ = false;
        return at + 1;
    }
    at = find_quote_or_backslash(at, end);
    if (at == end) {
        return at;
    }
    is_escaped_ = *at == '\\';
    if (!is_escaped_) {
        state_ = behind;
    }
    return at + 1;
}

const char *JsonScanner::scan_name(const char *at, const char *end) {
    if (name_.is_none(paths_, *at)) {
        target_ = 0;
        state_ = State::other_name;
        return at;
    }
    while (at != end) {
        if (!name_.take(paths_, *at++)) {
            target_ = name_.matches();
            state_ = State::colon;
            break;
        }
        if (name_.is_unknown()) {
            target_ = 0;
            state_ = State::other_name;
            break;
        }
    }
    return at;
}

/// Takes a byte that stands between strings and scalars.
void JsonScanner::take(char c) {
    switch (state_) {
    case State::value:
        begin_value(c);
        break;
    case State::name:
        take_before_name(c);
        break;
    case State::colon:
        if (c == ':') {
            state_ = State::value;
        } else if (!is_space(c)) {
            state_ = State::over;
        }
        break;
    default:
        take_separator(c);
        break;
    }
}

void JsonScanner::take_before_name(char c) {
    if (c == '"') {
        begin_name();
    } else if (c == '}') {
        close(false);
    } else if (!is_space(c)) {
        state_ = State::over;
    }
}

void JsonScanner::begin_value(char c) {
    switch (c) {
    case '{':
        open(false);
        break;
    case '[':
        open(true);
        break;
    case ']':
        close(true);
        break;
    case '"':
        ignored_ |= reached();
        is_escaped_ = false;
        state_ = State::string;
        break;
    case '}':
    case ',':
    case ':':
        state_ = State::over;
        break;
    case ' ':
    case '\n':
    case '\r':
    case '\t':
        break;
    default:
        begin_scalar(c);
        take_scalar(c);
        break;
    }
}

void JsonScanner::begin_name() {
    const PathSet leading = leading_[depth_ - 1];
    is_escaped_ = false;
    target_ = 0;
    state_ = State::other_name;
    if (leading != 0) {
        name_.begin(paths_, depth_ - 1, leading);
        state_ = State::known_name;
    }
}

void JsonScanner::take_separator(char c) {
    if (c == ',' && depth_ > 0) {
        state_ = is_in_array() ? State::value : State::name;
        if (is_in_array()) {
            uint32_t &index = index_[depth_ - 1];
            index = std::min(index, std::numeric_limits<uint32_t>::max() - 1) + 1;
            target_element();
        }
    } else if (c == ']' || c == '}') {
        close(c == ']');
    } else if (!is_space(c)) {
        state_ = State::over;
    }
}

void JsonScanner::begin_scalar(char c) {
    number_ = 0;
    null_size_ = 0;
    scalar_ = reached() == 0 ? Scalar::unread : c == null_text[0] ? Scalar::null : Scalar::start;
    state_ = State::scalar;
}

void JsonScanner::take_scalar(char c) {
    if ((scalar_ == Scalar::start || scalar_ == Scalar::digits) && c >= '0' && c <= '9') {
        scalar_ = Scalar::digits;
        const uint64_t number = uint64_t{10} * number_ + static_cast<uint64_t>(c - '0');
        number_ = static_cast<uint32_t>(std::min(number, SeenNumbers::largest));
    } else if (scalar_ == Scalar::digits && c == '.') {
        scalar_ = Scalar::point;
    } else if ((scalar_ == Scalar::point || scalar_ == Scalar::fraction) && c == '0') {
        scalar_ = Scalar::fraction;
    } else if (scalar_ == Scalar::null && null_size_ < null_text.size() &&
               c == null_text[null_size_]) {
        ++null_size_;
    } else {
        scalar_ = Scalar::other;
    }
}

void JsonScanner::end_scalar() {
    state_ = State::separator;
    if (scalar_ == Scalar::digits || scalar_ == Scalar::fraction) {
        numbers_.seen |= reached();
        for (PathSet left = reached(); left != 0; left &= left - 1) {
            uint32_t &kept = numbers_.numbers[std::countr_zero(left)];
            const bool is_largest = (left & -left & paths_.largest()) != 0;
            kept = is_largest ? std::max(kept, number_) : number_;
        }
    } else if (scalar_ != Scalar::unread &&
               (scalar_ != Scalar::null || null_size_ != null_text.size())) {
        ignored_ |= reached();
    }
}

void JsonScanner::open(bool is_array) {
    if (depth_ == JsonPaths::most_depth) {
        state_ = State::over;
        return;
    }
    ignored_ |= reached();
    const uint64_t bit = uint64_t{1} << depth_;
    arrays_ = is_array ? arrays_ | bit : arrays_ & ~bit;
    leading_[depth_] = target_ & ~reached();
    index_[depth_] = 0;
    ++depth_;
    if (is_array) {
        target_element();
    }
    state_ = is_array ? State::value : State::name;
}

void JsonScanner::close(bool is_array) {
    if (depth_ == 0 || is_array != is_in_array()) {
        state_ = State::over;
        return;
    }
    --depth_;
    state_ = depth_ > 0 ? State::separator : State::over;
}

/// Of the paths that lead into the array, finds those that go on with its next element.
void JsonScanner::target_element() {
    target_ = 0;
    const PathSet leading = leading_[depth_ - 1];
    if (leading == 0) {
        return;
    }
    const JsonPaths::Level &level = paths_.level(depth_ - 1);
    target_ = leading & level.any_element;
    for (PathSet left = leading & level.elements; left != 0; left &= left - 1) {
        const int path = std::countr_zero(left);
        if (paths_[path].steps[depth_ - 1].index == index_[depth_ - 1]) {
            target_ |= PathSet{1} << path;
        }
    }
}

} // namespace rate_limit
