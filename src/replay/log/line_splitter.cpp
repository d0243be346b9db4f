#include "replay/log/line_splitter.hpp"

#include "replay/report/readable.hpp"

#include <algorithm>

namespace replay {

namespace {

// Enough for a line of 64 KB in which each space may end one value; it takes some milliseconds.
constexpr size_t most_tries = 200'000;

/// Whether a kind's values depend on the reading.
bool has_readings(FieldKind kind) {
    return kind == FieldKind::request || kind == FieldKind::uri;
}

Field field_at(size_t begin, size_t end) {
    return {.begin = static_cast<uint32_t>(begin), .size = static_cast<uint32_t>(end - begin)};
}

std::string_view text_of(std::string_view line, const Field &field) {
    return line.substr(field.begin, field.size);
}

} // namespace

LineSplitter::LineSplitter(const LogFormat &format, const std::function<bool(size_t)> &is_used)
    : format_(format), path_(format.fields()), found_(format.fields()) {
    const auto &parts = format.parts();
    bool is_reached_once = true;
    for (size_t i = 0; i < parts.size(); ++i) {
        const Characters characters(parts[i].kind, format.escapes());
        const End end = end_of(parts[i], characters, i + 1 == parts.size());
        parts_.push_back({.of_format = &parts[i],
                          .characters = characters,
                          .end = end,
                          .is_used = is_used(i),
                          .is_reached_once = is_reached_once});
        is_reached_once = is_reached_once && end != End::where_text_follows;
        has_readings_ = has_readings_ || (is_open(end) && has_readings(parts[i].kind));
    }
}

LineSplitter::End LineSplitter::end_of(const LogFormat::Part &part, const Characters &characters,
                                       bool is_last) const {
    if (is_last) {
        return End::at_end_of_line;
    }
    if (size_of_all(part.kind) > 0) {
        return End::at_size;
    }
    if (characters.has(part.text_behind.front())) {
        return End::where_text_follows;
    }
    return characters.are_of_text() && format_.escapes() != Escapes::json ? End::at_character
                                                                          : End::behind_characters;
}

/// Returns where a field that ends in one place only ends, whether the text behind it is there or
/// not.
std::optional<size_t> LineSplitter::only_end(const Part &part, size_t begin) const {
    switch (part.end) {
    case End::at_size:
        return begin + size_of_all(part.of_format->kind);
    case End::at_character:
        return std::min(line_.find(part.of_format->text_behind.front(), begin), line_.size());
    case End::behind_characters:
        if (is_of_socket(part.of_format->kind, line_.substr(begin))) {
            return std::nullopt;
        }
        return part.characters.end_in(line_, begin);
    case End::at_end_of_line:
        return line_.size() - std::min(line_.size(), part.of_format->text_behind.size());
    case End::where_text_follows:
        break;
    }
    return std::nullopt;
}

LineSplitter::Result LineSplitter::split(std::string_view line, std::span<Field> out) {
    line_ = line;
    Result result = split_by(Reading::usual);
    if (has_readings_) {
        for (const Reading reading : {Reading::spaces_in_uris, Reading::any_request}) {
            result = result == Result::other_format ? split_by(reading) : result;
        }
    }
    std::ranges::copy(found_, out.begin());
    return result;
}

LineSplitter::Result LineSplitter::split_by(Reading reading) {
    reading_ = reading;
    has_found_ = false;
    other_.reset();
    if (!tried_.empty()) {
        tried_.clear();
    }
    tries_ = 0;
    const std::string_view before = format_.text_before();
    furthest_field_ = 0;
    furthest_begin_ = before.size();
    if (!line_.starts_with(before) || !follow(0, before.size())) {
        return Result::other_format;
    }
    return other_ || tries_ > most_tries ? Result::ambiguous : Result::split;
}

/// Reads the line from a field and place on, in all ways. Returns whether there is one.
bool LineSplitter::follow(size_t index, size_t begin) {
    for (; index < parts_.size(); ++index) {
        const Part &part = parts_[index];
        const auto end = only_end(part, begin);
        if (!end) {
            return branch(index, begin);
        }
        if (!fits(part, begin, *end)) {
            return fail(index, begin);
        }
        path_[index] = field_at(begin, *end);
        begin = *end + part.of_format->text_behind.size();
    }
    keep(parts_.size());
    return true;
}

/// Whether the text stands there. Most have one or two characters.
bool LineSplitter::follows(std::string_view text, size_t at) const {
    return text.empty() || (at < line_.size() && line_[at] == text.front() &&
                            (text.size() == 1 || line_.substr(at).starts_with(text)));
}

/// Whether the field may end there. What ends in quotes has one reading: any.
bool LineSplitter::fits(const Part &part, size_t begin, size_t end) const {
    const LogFormat::Part &of_format = *part.of_format;
    if (end < begin || end > line_.size() || !follows(of_format.text_behind, end)) {
        return false;
    }
    if (part.end == End::at_end_of_line && part.characters.end_in(line_, begin) < end) {
        return false;
    }
    return can_be(of_format.kind, line_.substr(begin, end - begin),
                  is_open(part.end) ? reading_ : Reading::any_request);
}

/// Tries all places where a field may end.
bool LineSplitter::branch(size_t index, size_t begin) {
    const Part &part = parts_[index];
    const uint64_t place = static_cast<uint64_t>(index) << 32 | begin;
    if (!part.is_reached_once) {
        const auto tried = tried_.find(place);
        if (tried != tried_.end()) {
            if (tried->second) {
                keep(index); // what follows was compared when it was read first
            }
            return tried->second;
        }
    }
    const std::string_view text_behind = part.of_format->text_behind;
    const size_t longest = part.characters.end_in(line_, begin);
    bool is_readable = false;
    const std::string_view searched = line_.substr(0, longest + text_behind.size());
    for (size_t end = searched.find(text_behind, begin);
         end != std::string_view::npos && ++tries_ <= most_tries;
         end = searched.find(text_behind, end + 1)) {
        if (fits(part, begin, end)) {
            path_[index] = field_at(begin, end);
            is_readable = follow(index + 1, end + text_behind.size()) || is_readable;
        }
    }
    if (!part.is_reached_once) {
        tried_[place] = is_readable;
    }
    return is_readable || fail(index, begin);
}

/// Keeps the first way to read the line. Of another, of which so many fields are new, the fields in
/// use must be alike.
void LineSplitter::keep(size_t fields) {
    if (!has_found_) {
        found_ = path_;
        has_found_ = true;
        return;
    }
    for (size_t i = 0; i < fields && !other_; ++i) {
        if (parts_[i].is_used && path_[i] != found_[i]) {
            other_ = {i, path_[i]};
        }
    }
}

/// Remembers the furthest place at which the line cannot be read.
bool LineSplitter::fail(size_t index, size_t begin) {
    if (index > furthest_field_) {
        furthest_field_ = index;
        furthest_begin_ = begin;
    }
    return false;
}

std::string LineSplitter::why_not(std::string_view line) {
    constexpr size_t most_shown = 80;
    const auto quoted = [](std::string_view text) {
        return '"' + readable(text, most_shown) + '"';
    };
    std::vector<Field> fields(parts_.size());
    if (split(line, fields) == Result::ambiguous) {
        if (!other_) {
            return "There are too many ways to read it.";
        }
        const auto &[index, other] = *other_;
        return "It can be read in several ways: $" + parts_[index].of_format->name + " may be " +
               quoted(text_of(line, fields[index])) + " or " + quoted(text_of(line, other)) +
               ". Quotes around it in the log_format tell.";
    }
    if (!line.starts_with(format_.text_before())) {
        return "It does not begin with " + quoted(format_.text_before()) + ".";
    }
    const LogFormat::Part &part = *parts_[furthest_field_].of_format;
    const std::string behind =
        part.text_behind.empty() ? "the end of the line" : quoted(part.text_behind);
    return "It is not of the format at " + quoted(line.substr(furthest_begin_)) + ": expected $" +
           part.name + " and " + behind + ".";
}

} // namespace replay
