// Paths from the root of a JSON text to a number in it, such as usage.total_tokens or
// [*].items["a.b"][0].
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rate_limit {

/// The way from a container to what it has: a member of an object, an element of an array, or any
/// of them.
struct PathStep {
    enum class Kind : uint8_t { member, any_member, element, any_element };
    Kind kind;
    std::string name;   // of the member
    uint32_t index = 0; // of the element

    bool operator==(const PathStep &) const = default;
};

/// Which of the numbers that were seen at a path counts.
enum class Kept : uint8_t { last, largest };

struct JsonPath {
    std::string text; // as it was written
    std::vector<PathStep> steps;
    Kept kept = Kept::last;
};

/// A bit for each path of a JsonPaths.
using PathSet = uint32_t;

/// All paths that are looked for in one body.
class JsonPaths {
  public:
    static constexpr size_t most = 32;
    /// Deeper texts are not read, so that a longer path would lead nowhere.
    static constexpr size_t most_depth = 64;
    static constexpr uint32_t largest_index = 1'000'000'000;

    /// Returns the number of the path, which is added if no other has these steps and keeps the
    /// same of its numbers. Returns nothing if there is no room for it.
    std::optional<size_t> add(JsonPath path);

    const JsonPath &operator[](size_t number) const { return paths_[number]; }
    size_t size() const { return paths_.size(); }
    /// Those of which the largest number counts.
    PathSet largest() const { return largest_; }
    PathSet all() const { return static_cast<PathSet>((uint64_t{1} << paths_.size()) - 1); }

    /// The paths by what their step at one depth is.
    struct Level {
        PathSet members = 0;
        PathSet any_member = 0;
        PathSet elements = 0;
        PathSet any_element = 0;
        PathSet ends = 0; // it is their last one
        // Of the members, by the first byte of the name: most names in a text differ there.
        std::array<PathSet, 256> first_bytes{};
    };
    /// `depth` counts from 0, and some path has a step there.
    const Level &level(size_t depth) const { return levels_[depth]; }

  private:
    std::vector<JsonPath> paths_;
    std::vector<Level> levels_;
    PathSet largest_ = 0;
};

/// The number that counts of those that were seen at each path; 0 where none was.
struct SeenNumbers {
    /// Larger ones count as this.
    static constexpr uint64_t largest = 1'000'000'000;

    PathSet seen = 0;
    std::array<uint32_t, JsonPaths::most> numbers{};
};

} // namespace rate_limit
