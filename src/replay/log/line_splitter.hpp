// Takes the lines of a log apart, so that each field holds what its variable can be.
//
// A separator may stand inside a value, too: a space in `$request`, or `, ` in a list of upstreams.
// So all places are tried where a value may end, and a line is refused where more than one way to
// read it is left.
#pragma once

#include "replay/log/log_format.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace replay {

class LineSplitter {
  public:
    enum class Result {
        split,
        ambiguous,   // fields that are in use differ between the ways to read it
        other_format // there is none
    };

    /// `is_used` tells by their index which fields matter. The format outlives it.
    LineSplitter(const LogFormat &format, const std::function<bool(size_t)> &is_used);

    /// Finds the fields of a line, of which there are as many as the format has. They are valid
    /// only if the result is `split`.
    Result split(std::string_view line, std::span<Field> out);

    /// Tells a person why a line was not split.
    std::string why_not(std::string_view line);

  private:
    /// Where a field ends.
    enum class End {
        at_size,            // all its values have one
        at_character,       // which no value holds, and with which the text behind it begins
        behind_characters,  // which are all that a value may hold
        at_end_of_line,     // or where the text behind it begins there
        where_text_follows, // which may stand inside a value, too: there are several places
    };
    struct Part {
        const LogFormat::Part *of_format;
        Characters characters;
        End end;
        bool is_used;
        bool is_reached_once; // no field before it may end in several places
    };

    /// Whether a field is not ended by a character that it cannot hold.
    static bool is_open(End end) {
        return end == End::where_text_follows || end == End::at_end_of_line;
    }
    End end_of(const LogFormat::Part &part, const Characters &characters, bool is_last) const;
    std::optional<size_t> only_end(const Part &part, size_t begin) const;
    bool follows(std::string_view text, size_t at) const;
    bool fits(const Part &part, size_t begin, size_t end) const;
    Result split_by(Reading reading);
    bool follow(size_t index, size_t begin);
    bool branch(size_t index, size_t begin);
    void keep(size_t fields);
    bool fail(size_t index, size_t begin);

    const LogFormat &format_;
    std::vector<Part> parts_;
    bool has_readings_ = false; // a request or a URI ends where text follows

    // Of the line that is being split:
    std::string_view line_;
    Reading reading_ = Reading::usual;
    std::vector<Field> path_;  // the fields up to where it is being read
    std::vector<Field> found_; // the first way to read all of it
    bool has_found_ = false;
    std::optional<std::pair<size_t, Field>> other_; // a field in use, and what it may be instead
    std::unordered_map<uint64_t, bool> tried_; // whether it can be read from a field and place on
    size_t tries_ = 0;
    size_t furthest_field_ = 0; // that cannot be read, and its place
    size_t furthest_begin_ = 0;
};

} // namespace replay
