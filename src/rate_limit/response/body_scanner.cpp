#include "rate_limit/response/body_scanner.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
constexpr std::string_view data_field = "data";

bool is_same_ignoring_case(std::string_view text, std::string_view lower) {
    const auto to_lower = [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    return std::ranges::equal(text, lower, {}, to_lower);
}

/// Finds the ends of the lines of a piece, and looks at each of its bytes no more than twice.
class LineEnds {
  public:
    explicit LineEnds(std::string_view bytes)
        : bytes_(bytes), line_feed_(place_of('\n', 0)), carriage_return_(place_of('\r', 0)) {}

    /// Returns the place of the next LF or CR from there on, or the end of the piece.
    size_t find(size_t from) {
        if (line_feed_ < from) {
            line_feed_ = place_of('\n', from);
        }
        if (carriage_return_ < from) {
            carriage_return_ = place_of('\r', from);
        }
        return std::min(line_feed_, carriage_return_);
    }

  private:
    size_t place_of(char c, size_t from) const {
        return std::min(bytes_.find(c, from), bytes_.size());
    }

    std::string_view bytes_;
    size_t line_feed_;
    size_t carriage_return_;
};

} // namespace

std::optional<BodyFormat> body_format_of(std::string_view content_type) {
    constexpr std::string_view suffix = "+json";
    const std::string_view type = content_type.substr(0, content_type.find_first_of("; \t"));
    const auto is = [type](std::string_view name) { return is_same_ignoring_case(type, name); };
    if (is("text/event-stream")) {
        return BodyFormat::events;
    }
    if (is("application/x-ndjson") || is("application/jsonl") || is("application/stream+json")) {
        return BodyFormat::lines;
    }
    const std::string_view end = type.substr(type.size() - std::min(type.size(), suffix.size()));
    if (is("application/json") || is_same_ignoring_case(end, suffix)) {
        return BodyFormat::text;
    }
    return std::nullopt;
}

void BodyScanner::scan(std::string_view bytes) {
    if (!is_behind_mark_) {
        bytes = without_mark(bytes);
    }
    scan_behind_mark(bytes);
}

/// Takes a byte order mark off the front of the body, which has one or not.
std::string_view BodyScanner::without_mark(std::string_view bytes) {
    while (!bytes.empty() && bytes.front() == byte_order_mark[mark_size_]) {
        bytes.remove_prefix(1);
        if (++mark_size_ == byte_order_mark.size()) {
            is_behind_mark_ = true;
            return bytes;
        }
    }
    if (!bytes.empty()) {
        is_behind_mark_ = true;
        scan_behind_mark(byte_order_mark.substr(0, mark_size_));
    }
    return bytes;
}

void BodyScanner::scan_behind_mark(std::string_view bytes) {
    switch (format_) {
    case BodyFormat::text:
        scanner_.scan(bytes);
        break;
    case BodyFormat::lines:
        scan_lines(bytes);
        break;
    case BodyFormat::events:
        scan_events(bytes);
        break;
    }
}

void BodyScanner::scan_lines(std::string_view bytes) {
    while (!bytes.empty()) {
        const size_t end = bytes.find('\n');
        const std::string_view line = bytes.substr(0, std::min(end, bytes.size() - 1) + 1);
        scanner_.scan(line);
        if (end != std::string_view::npos) {
            scanner_.begin_text();
        }
        bytes.remove_prefix(line.size());
    }
}

void BodyScanner::scan_events(std::string_view bytes) {
    LineEnds ends(bytes);
    size_t at = 0;
    while (at < bytes.size()) {
        if (is_behind_cr_) { // with which a line feed is one end of a line
            is_behind_cr_ = false;
            if (bytes[at] == '\n') {
                ++at;
                continue;
            }
        }
        const size_t end = ends.find(at);
        scan_line(bytes.substr(at, end - at));
        if (end < bytes.size()) {
            is_behind_cr_ = bytes[end] == '\r';
            end_line();
        }
        at = end + 1;
    }
}

/// Takes the next bytes of a line.
void BodyScanner::scan_line(std::string_view bytes) {
    bytes = without_field(bytes);
    if (line_ == Line::data) {
        scanner_.scan(bytes);
    }
}

/// Takes the name of the field, the colon and a space behind it off the front.
std::string_view BodyScanner::without_field(std::string_view bytes) {
    while (!bytes.empty() && line_ != Line::data && line_ != Line::other) {
        const char c = bytes.front();
        if (line_ == Line::value) {
            line_ = Line::data;
            if (c != ' ') {
                break;
            }
        } else if (field_size_ < data_field.size()) {
            line_ = c == data_field[field_size_] ? Line::field : Line::other;
            ++field_size_;
        } else {
            line_ = c == ':' ? Line::value : Line::other;
        }
        bytes.remove_prefix(1);
    }
    return bytes;
}

void BodyScanner::end_line() {
    if (line_ == Line::start) { // which ends the event
        scanner_.begin_text();
    } else if (line_ != Line::other) {
        scanner_.scan("\n"); // if it joins two lines, or behind the last one
    }
    line_ = Line::start;
    field_size_ = 0;
}

} // namespace rate_limit
