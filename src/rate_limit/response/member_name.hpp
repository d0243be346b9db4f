// A member's name in a JSON text: its escapes, and the paths that go on with it.
#pragma once

#include "rate_limit/response/json_path.hpp"

#include <cstdint>

namespace rate_limit {

/// Compares a name, as its bytes come, with the names that paths have in its place.
class MemberName {
  public:
    /// `candidates` are the paths that lead to the object, and have a step at `depth`.
    void begin(const JsonPaths &paths, size_t depth, PathSet candidates);

    /// Whether no path has such a name, as the first byte shows alone: that is so of most.
    bool is_none(const JsonPaths &paths, char first) const {
        return size_ == 0 && any_ == 0 && stage_ == Stage::plain && first != '"' && first != '\\' &&
               (same_ & paths.level(depth_).first_bytes[static_cast<unsigned char>(first)]) == 0;
    }

    /// Takes the next byte behind the opening quote. Returns false if it is the closing one.
    bool take(const JsonPaths &paths, char c);

    /// Whether no byte that may come changes that it is no step of any path. What is left of the
    /// name can be passed over as any string.
    bool is_unknown() const { return (same_ | any_) == 0 && stage_ != Stage::escape; }

    /// Once the closing quote was taken: the paths that this member is a step of.
    PathSet matches() const { return same_ | any_; }

  private:
    enum class Stage : uint8_t { plain, escape, hex };

    void take_escaped(const JsonPaths &paths, char c);
    void take_hex(const JsonPaths &paths, uint32_t digit);
    void take_code_unit(const JsonPaths &paths);
    void compare_character(const JsonPaths &paths, uint32_t character);
    void compare(const JsonPaths &paths, char c);
    template <typename IsSame>
    void keep_same(const JsonPaths &paths, IsSame is_same);

    PathSet same_ = 0; // paths whose name there begins with what has come
    PathSet any_ = 0;  // paths that take every name
    uint16_t size_ = 0;
    uint16_t high_surrogate_ = 0; // the first half of a pair in UTF-16; 0: none came last
    uint16_t code_unit_ = 0;      // what has come of an escaped one
    uint8_t depth_ = 0;
    uint8_t hex_digits_ = 0; // so many of it are still to come
    Stage stage_ = Stage::plain;
};

} // namespace rate_limit
