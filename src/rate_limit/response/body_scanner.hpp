// The body of a response, as its Content-Type says how texts of JSON stand in it.
#pragma once

#include "rate_limit/response/json_scanner.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace rate_limit {

enum class BodyFormat : uint8_t {
    text,   // one text
    lines,  // one on each line
    events, // the data of each event, as HTML's "server-sent events" says
};

/// Returns the format of the bodies of a type, whose parameters do not matter; nothing if there is
/// no JSON in them.
std::optional<BodyFormat> body_format_of(std::string_view content_type);

/// Finds the texts in a body, in whatever pieces it comes, and the numbers in them. It allocates
/// nothing.
class BodyScanner {
  public:
    /// The paths live as long as this.
    BodyScanner(BodyFormat format, const JsonPaths &paths) : format_(format), scanner_(paths) {}

    /// Takes the next bytes of the body.
    void scan(std::string_view bytes);

    const SeenNumbers &numbers() const { return scanner_.numbers(); }
    PathSet take_ignored() { return scanner_.take_ignored(); }

  private:
    enum class Line : uint8_t {
        start,
        field, // in its name, which is that of `data` so far
        value, // behind the colon: one space may be next
        data,
        other, // a comment, or another field
    };

    std::string_view without_mark(std::string_view bytes);
    void scan_behind_mark(std::string_view bytes);
    void scan_lines(std::string_view bytes);
    void scan_events(std::string_view bytes);
    void scan_line(std::string_view bytes);
    std::string_view without_field(std::string_view bytes);
    void end_line();

    BodyFormat format_;
    Line line_ = Line::start;
    uint8_t mark_size_ = 0; // so much of a byte order mark has come
    bool is_behind_mark_ = false;
    uint8_t field_size_ = 0; // so much of `data` has come
    bool is_behind_cr_ = false;
    JsonScanner scanner_;
};

} // namespace rate_limit
