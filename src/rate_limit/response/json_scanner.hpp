// Numbers out of JSON texts, in whatever pieces these come, in memory of a fixed size.
#pragma once

#include "rate_limit/response/json_path.hpp"
#include "rate_limit/response/member_name.hpp"

#include <array>
#include <cstdint>
#include <string_view>

namespace rate_limit {

/// Reads strings, brackets, commas, colons, and the numbers at the paths. All else is passed over
/// unread: it may be no JSON. What cannot be read on, or is nested too deep, is passed over up to
/// the next text.
///
/// A number counts once the byte behind it has come, so that half of one never does. It is of
/// digits, and may have a fraction of zeros, as programs write whole numbers that are floats for
/// them. `null` is as if it were not there; anything else at a path is ignored.
class JsonScanner {
  public:
    /// The paths live as long as this.
    explicit JsonScanner(const JsonPaths &paths) : paths_(paths) { begin_text(); }

    /// Begins the next text. Numbers of the ones before stay.
    void begin_text();
    /// Takes the next bytes of the text.
    void scan(std::string_view bytes);

    const SeenNumbers &numbers() const { return numbers_; }
    /// The paths at which something was ignored since the last call.
    PathSet take_ignored();

  private:
    enum class State : uint8_t {
        value,      // a value is next, or the end of an array
        name,       // a member's name is next, or the end of the object
        colon,      // behind a name
        separator,  // behind a value: a comma or the container's end
        scalar,     // in a number, true, false or null
        string,     // in a string that is a value
        known_name, // in a name that a path may go on with
        other_name, // in another one
        over,       // the rest of the text is passed over
    };
    /// Whether the next byte stands between strings and scalars.
    bool is_between() const { return state_ <= State::separator; }

    enum class Scalar : uint8_t {
        unread,
        start,    // nothing of it was read
        digits,   // of a whole number
        point,    // behind which zeros have to come
        fraction, // of zeros
        null,
        other,
    };

    const char *scan_scalar(const char *at, const char *end);
    const char *scan_string(const char *at, const char *end, State behind);
    const char *scan_name(const char *at, const char *end);
    void take(char c);
    void begin_value(char c);
    void take_before_name(char c);
    void begin_name();
    void take_separator(char c);
    void begin_scalar(char c);
    void take_scalar(char c);
    void end_scalar();
    void open(bool is_array);
    void close(bool is_array);
    void target_element();

    bool is_in_array() const { return depth_ > 0 && (arrays_ >> (depth_ - 1) & 1) != 0; }
    /// The paths that end at the value that comes.
    PathSet reached() const {
        return depth_ > 0 && target_ != 0 ? target_ & paths_.level(depth_ - 1).ends : 0;
    }

    const JsonPaths &paths_;
    SeenNumbers numbers_;
    // By depth, of the containers that are open: the paths that lead into it and on, and of an
    // array the index of its element.
    std::array<PathSet, JsonPaths::most_depth> leading_;
    std::array<uint32_t, JsonPaths::most_depth> index_;
    uint64_t arrays_; // a bit for each container that is an array
    PathSet target_;  // the paths that lead to the value that comes, or is read
    PathSet ignored_ = 0;
    MemberName name_;
    uint32_t number_ = 0;
    uint8_t depth_; // of containers that are open
    State state_;
    Scalar scalar_ = Scalar::unread;
    uint8_t null_size_ = 0;   // so much of `null` was read
    bool is_escaped_ = false; // the byte of the string that comes has a backslash before it
};

} // namespace rate_limit
