// Bodies of responses: what is found in any bytes is the same in whatever pieces they come; and in
// texts of JSON, written in any way that the format allows, it is what was written at the paths.

#include "pieces.hpp"
#include "rate_limit/response/body_scanner.hpp"
#include "rate_limit/response/value_expression.hpp"
#include "targets.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace fuzz {
namespace {

using rate_limit::BodyFormat;
using rate_limit::BodyScanner;
using rate_limit::JsonPath;
using rate_limit::JsonPaths;
using rate_limit::PathStep;
using rate_limit::SeenNumbers;
using rate_limit::ValueExpression;

constexpr BodyFormat formats[] = {BodyFormat::text, BodyFormat::lines, BodyFormat::events};
constexpr std::string_view names[] = {"a",   "b",        "usage", "",
                                      "a.b", "\xc3\xa4", "\"",    "\xf0\x9f\x98\x80"};

PathStep take_step(Input &input) {
    PathStep step{static_cast<PathStep::Kind>(input.number(0, 3)), {}};
    if (step.kind == PathStep::Kind::member) {
        step.name = input.one_of(names);
    } else if (step.kind == PathStep::Kind::element) {
        step.index = static_cast<uint32_t>(input.number(0, 3));
    }
    return step;
}

std::string written(const PathStep &step) {
    switch (step.kind) {
    case PathStep::Kind::member:
        return "[\"" + (step.name == "\"" ? "\\\"" : step.name) + "\"]";
    case PathStep::Kind::any_member:
        return "*";
    case PathStep::Kind::element:
        return "[" + std::to_string(step.index) + "]";
    case PathStep::Kind::any_element:
        break;
    }
    return "[*]";
}

/// Takes paths, as an expression has them: the sum of all, of some of which the largest number
/// counts.
JsonPaths take_paths(Input &input) {
    std::string text;
    for (uint64_t left = input.number(1, 6); left > 0; --left) {
        const bool is_maximum = input.flag();
        (text += text.empty() ? "" : "+") += is_maximum ? "max(" : "";
        for (uint64_t depth = input.number(0, 3) + 1, at = 0; at < depth; ++at) {
            const std::string step = written(take_step(input));
            text += (at > 0 && step == "*" ? "." : "") + step;
        }
        text += is_maximum ? ")" : "";
    }
    JsonPaths paths;
    require(ValueExpression().parse(text, paths) == nullptr, "it is an expression");
    return paths;
}

std::string shown(const SeenNumbers &numbers, rate_limit::PathSet ignored) {
    std::string text = "ignored " + std::to_string(ignored);
    for (size_t path = 0; path < numbers.numbers.size(); ++path) {
        if ((numbers.seen >> path & 1) != 0) {
            text += ", " + std::to_string(path) + ": " + std::to_string(numbers.numbers[path]);
        }
    }
    return text;
}

std::string found_in(std::string_view body, std::string_view sizes, BodyFormat format,
                     const JsonPaths &paths) {
    BodyScanner scanner(format, paths);
    for (Pieces pieces(body, sizes); !pieces.empty();) {
        scanner.scan(pieces.take());
    }
    return shown(scanner.numbers(), scanner.take_ignored());
}

/// Writes texts, and knows what stands at the paths.
class Writer {
  public:
    Writer(Input &input, BodyFormat format, const JsonPaths &paths)
        : input_(input), format_(format), paths_(paths) {}

    std::string take_body() {
        const uint64_t texts = format_ == BodyFormat::text ? 1 : input_.number(1, 4);
        body_ = input_.flag() ? "\xef\xbb\xbf" : "";
        for (uint64_t left = texts; left > 0; --left) {
            if (format_ == BodyFormat::events) {
                write_other_fields();
                body_ += input_.flag() ? "data:" : "data: ";
            }
            write_space();
            write_value();
            write_space();
            end_text(left == 1);
        }
        return body_;
    }

    std::string expected() const { return shown(numbers_, ignored_); }

  private:
    std::string_view take_line_end() {
        constexpr std::string_view ends[] = {"\n", "\r\n", "\r"};
        return input_.one_of(ends);
    }

    void write_other_fields() {
        constexpr std::string_view fields[] = {"event: data: {\"a\":1}", ":", "datax: 5", "id",
                                               "dat"};
        if (input_.flag()) {
            body_ += input_.one_of(fields);
            body_ += take_line_end();
        }
    }

    void end_text(bool is_last) {
        if (format_ == BodyFormat::lines) {
            body_ += is_last && input_.flag() ? "" : input_.flag() ? "\r\n" : "\n";
        } else if (format_ == BodyFormat::events && !(is_last && input_.flag())) {
            const std::string_view end = take_line_end();
            (body_ += end) += end;
        }
    }

    void write_space() {
        constexpr std::string_view spaces[] = {"", "", " ", "\t ", "\n"};
        const std::string_view space = input_.one_of(spaces);
        if (space != "\n" || format_ == BodyFormat::text) {
            body_ += space;
        } else if (format_ == BodyFormat::events) {
            body_ += take_line_end();
            body_ += "data:";
        }
    }

    bool is_at(const JsonPath &path) const {
        const auto leads = [](const PathStep &step, const PathStep &place) {
            const bool is_member = place.kind == PathStep::Kind::member;
            return step == place || step.kind == (is_member ? PathStep::Kind::any_member
                                                            : PathStep::Kind::any_element);
        };
        return std::ranges::equal(path.steps, place_, leads);
    }

    /// The paths that lead to the place where a value is written.
    rate_limit::PathSet paths_here() const {
        rate_limit::PathSet here = 0;
        for (size_t path = 0; path < paths_.size(); ++path) {
            here |= is_at(paths_[path]) ? 1U << path : 0;
        }
        return here;
    }

    void write_number() {
        const uint64_t number = input_.number(0, input_.flag() ? 9 : UINT64_MAX);
        const auto counted = static_cast<uint32_t>(std::min<uint64_t>(number, 1'000'000'000));
        const rate_limit::PathSet here = paths_here();
        for (size_t path = 0; path < paths_.size(); ++path) {
            uint32_t &kept = numbers_.numbers[path];
            if ((here >> path & 1) != 0 &&
                (paths_[path].kept == rate_limit::Kept::last || kept < counted)) {
                kept = counted;
            }
        }
        numbers_.seen |= here;
        (body_ += std::to_string(number)) += input_.flag() ? ".0" : "";
    }

    void write_other() {
        constexpr std::string_view others[] = {
            "null", "true", "-1", "1.5", "\"\"", "\"\\\"]}{[,:\\\\\"", "1e3", "\"\\u12\""};
        const std::string_view other = input_.one_of(others);
        ignored_ |= other != "null" ? paths_here() : 0;
        body_ += other;
    }

    void write_value() {
        const uint64_t kind = input_.number(0, place_.size() < 5 ? 4 : 1);
        // A number at the root is at no path, and in a body that ends with it nothing is behind it.
        if (kind == 0) {
            write_number();
        } else if (kind == 1) {
            write_other();
        } else {
            ignored_ |= paths_here();
            write_container(kind == 2);
        }
    }

    void write_container(bool is_array) {
        body_ += is_array ? "[" : "{";
        for (uint64_t count = input_.number(0, 4), at = 0; at < count; ++at) {
            body_ += at > 0 ? "," : "";
            write_space();
            if (is_array) {
                place_.push_back({PathStep::Kind::element, {}, static_cast<uint32_t>(at)});
            } else {
                place_.push_back({PathStep::Kind::member, std::string(input_.one_of(names))});
                write_name(place_.back().name);
                write_space();
                body_ += ":";
                write_space();
            }
            write_value();
            write_space();
            place_.pop_back();
        }
        write_space();
        body_ += is_array ? "]" : "}";
    }

    void write_name(std::string_view name) {
        body_ += '"';
        const bool is_escaped = input_.flag();
        if (is_escaped && name == "\xc3\xa4") {
            body_ += "\\u00E4";
        } else if (is_escaped && name == "\xf0\x9f\x98\x80") {
            body_ += "\\ud83D\\uDe00";
        } else if (is_escaped && name.starts_with('a')) {
            (body_ += "\\u0061") += name.substr(1);
        } else {
            (body_ += name == "\"" ? "\\" : "") += name;
        }
        body_ += '"';
    }

    Input &input_;
    BodyFormat format_;
    const JsonPaths &paths_;
    std::vector<PathStep> place_;
    std::string body_;
    SeenNumbers numbers_;
    rate_limit::PathSet ignored_ = 0;
};

} // namespace

void response_bodies(Input input) {
    const JsonPaths paths = take_paths(input);
    const BodyFormat format = input.one_of(formats);
    const std::string sizes(input.text(8));
    const bool is_written = input.flag();
    Writer writer(input, format, paths);
    const std::string body = is_written ? writer.take_body() : std::string(input.rest());
    if (is_written) {
        const std::string found = found_in(body, one_piece, format, paths);
        if (found != writer.expected()) {
            std::fprintf(stderr, "%s\n--- expected %s\n--- found %s\n", body.c_str(),
                         writer.expected().c_str(), found.c_str());
        }
        require(found == writer.expected(), "what was written is found");
    }
    require_same_in_pieces({single_bytes, sizes}, [&](std::string_view pieces) {
        return found_in(body, pieces, format, paths);
    });
}

} // namespace fuzz
