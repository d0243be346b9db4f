#include "rate_limit/response/value_expression.hpp"

#include "rate_limit/text/times_and_numbers.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace rate_limit {

namespace {

constexpr const char *expected_paths =
    "paths such as usage.total_tokens, items[0].n, [*].n or [\"a.b\"], or max(a,b) of some, "
    "joined by + and |";
constexpr const char *expected_room = "at most 32 paths on a level";
constexpr const char *expected_depth = "paths of at most 64 steps";

/// As in the short form of RFC 9535, section 2.5.1.1, but digits may come first.
bool is_name_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
}

/// What of an expression is still to be read. What its functions take is taken off the front.
class Reader {
  public:
    explicit Reader(std::string_view text) : left_(text) {}

    bool at_end() const { return left_.empty(); }
    bool is_before(std::string_view text) const { return left_.starts_with(text); }

    bool take(std::string_view text) {
        if (!is_before(text)) {
            return false;
        }
        left_.remove_prefix(text.size());
        return true;
    }

    /// Takes an operator, which may have spaces and ends of lines around it.
    bool take_operator(std::string_view sign) {
        const std::string_view before = left_;
        skip_spaces();
        if (!take(sign)) {
            left_ = before;
            return false;
        }
        skip_spaces();
        return true;
    }

    bool take_maximum() {
        if (!take("max(")) {
            return false;
        }
        skip_spaces();
        return true;
    }
    bool take_closing_bracket() {
        skip_spaces();
        return take(")");
    }

    std::optional<JsonPath> take_path() {
        const std::string_view before = left_;
        JsonPath path;
        auto step = take_first_step();
        while (step) {
            path.steps.push_back(std::move(*step));
            if (!is_before(".") && !is_before("[")) {
                path.text = before.substr(0, before.size() - left_.size());
                return path;
            }
            step = take_next_step();
        }
        return std::nullopt;
    }

  private:
    void skip_spaces() {
        left_.remove_prefix(std::min(left_.find_first_not_of(" \t\r\n"), left_.size()));
    }

    std::optional<PathStep> take_first_step() {
        return is_before("[") ? take_brackets() : take_member();
    }

    std::optional<PathStep> take_next_step() {
        if (!take(".")) {
            return take_brackets();
        }
        return is_before("[\"") ? take_brackets() : take_member();
    }

    std::optional<PathStep> take_member() {
        if (take("*")) {
            return PathStep{PathStep::Kind::any_member, {}};
        }
        const auto *const end = std::ranges::find_if_not(left_, is_name_byte);
        const std::string_view name = left_.substr(0, end - left_.begin());
        if (!take(name) || name.empty()) {
            return std::nullopt;
        }
        return PathStep{PathStep::Kind::member, std::string(name)};
    }

    std::optional<PathStep> take_brackets() {
        if (take("[*]")) {
            return PathStep{PathStep::Kind::any_element, {}};
        }
        if (take("[\"")) {
            return take_quoted_member();
        }
        const size_t end = left_.find(']');
        const auto index =
            left_.starts_with('[') && end != std::string_view::npos
                ? parse_whole_number(left_.substr(1, end - 1), JsonPaths::largest_index)
                : std::nullopt;
        if (!index) {
            return std::nullopt;
        }
        left_.remove_prefix(end + 1);
        return PathStep{PathStep::Kind::element, {}, static_cast<uint32_t>(*index)};
    }

    /// A quote or a backslash in the name has a backslash before it.
    std::optional<PathStep> take_quoted_member() {
        PathStep step{PathStep::Kind::member, {}};
        while (!left_.empty() && !is_before("\"")) {
            take("\\");
            step.name += left_.substr(0, 1);
            left_.remove_prefix(std::min<size_t>(1, left_.size()));
        }
        if (!take("\"]")) {
            return std::nullopt;
        }
        return step;
    }

    std::string_view left_;
};

/// What was not seen is 0.
uint32_t largest_of(const SeenNumbers &numbers, PathSet paths) {
    uint32_t largest = 0;
    for (; paths != 0; paths &= paths - 1) {
        largest = std::max(largest, numbers.numbers[std::countr_zero(paths)]);
    }
    return largest;
}

/// Takes a path, and adds it to `paths` and `term`. Returns null, or what was expected.
const char *take_path(Reader &reader, Kept kept, JsonPaths &paths, PathSet &term) {
    auto path = reader.take_path();
    if (!path) {
        return expected_paths;
    }
    if (path->steps.size() > JsonPaths::most_depth) {
        return expected_depth;
    }
    path->kept = kept;
    const auto number = paths.add(std::move(*path));
    if (!number) {
        return expected_room;
    }
    term |= PathSet{1} << *number;
    return nullptr;
}

/// Takes a path, or a maximum of some.
const char *take_term(Reader &reader, JsonPaths &paths, PathSet &term) {
    if (!reader.take_maximum()) {
        return take_path(reader, Kept::last, paths, term);
    }
    do {
        if (const char *expected = take_path(reader, Kept::largest, paths, term)) {
            return expected;
        }
    } while (reader.take_operator(","));
    return reader.take_closing_bracket() ? nullptr : expected_paths;
}

} // namespace

const char *ValueExpression::parse(std::string_view text, JsonPaths &paths) {
    Reader reader(text);
    do {
        Sum sum;
        do {
            Term term = 0;
            if (const char *expected = take_term(reader, paths, term)) {
                return expected;
            }
            sum.push_back(term);
        } while (reader.take_operator("+"));
        alternatives_.push_back(std::move(sum));
    } while (reader.take_operator("|"));
    return reader.at_end() ? nullptr : expected_paths;
}

std::optional<uint64_t> ValueExpression::value(const SeenNumbers &numbers) const {
    const auto is_seen = [&](Term term) { return (numbers.seen & term) != 0; };
    for (const Sum &sum : alternatives_) {
        if (std::ranges::all_of(sum, is_seen)) {
            uint64_t value = 0;
            for (const Term term : sum) {
                value += largest_of(numbers, term);
            }
            return value;
        }
    }
    return std::nullopt;
}

} // namespace rate_limit
