#include "log_format.hpp"

#include "../rate_limit/url_text.hpp"
#include "variable_text.hpp"

#include <algorithm>

namespace replay {

namespace {

/// Takes so many hex digits from the text. Returns the number, or nothing.
std::optional<unsigned> take_hex(std::string_view &text, size_t digits) {
    unsigned number = 0;
    for (size_t i = 0; i < digits; ++i) {
        const auto digit = i < text.size() ? rate_limit::hex_digit(text[i]) : std::nullopt;
        if (!digit) {
            return std::nullopt;
        }
        number = number * 16 + *digit;
    }
    text.remove_prefix(digits);
    return number;
}

/// Takes an escape, behind its backslash, and appends what it stands for.
void take_escape(std::string_view &text, std::string &out) {
    constexpr std::string_view escapes = "\"\\/bfnrt";
    constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    if (text.empty()) {
        out += '\\';
        return;
    }
    const char letter = text.front();
    text.remove_prefix(1);
    const size_t known = escapes.find(letter);
    if (known != std::string_view::npos) {
        out += meanings[known];
        return;
    }
    std::string_view digits = text;
    const auto byte = letter == 'x'   ? take_hex(digits, 2)
                      : letter == 'u' ? take_hex(digits, 4)
                                      : std::nullopt;
    if (!byte || *byte > 255) {
        out += '\\';
        out += letter;
        return;
    }
    out += static_cast<char>(*byte);
    text = digits;
}

} // namespace

std::variant<LogFormat, Error> LogFormat::read(std::string_view text) {
    LogFormat format;
    constexpr std::string_view json = "escape=json ";
    constexpr std::string_view none = "escape=none ";
    constexpr std::string_view usual = "escape=default ";
    for (const std::string_view prefix : {json, none, usual}) {
        if (text.starts_with(prefix)) {
            text.remove_prefix(prefix.size());
            format.escapes_ = prefix == json   ? Escapes::json
                              : prefix == none ? Escapes::none
                                               : Escapes::usual;
            break;
        }
    }
    const std::string meant = text_in_quotes(text);
    auto parts = split_at_variables(meant);
    if (auto *error = std::get_if<Error>(&parts)) {
        return "--format: " + *error;
    }
    std::string *literal = &format.text_before_;
    bool is_behind_variable = false;
    for (const TextPart &part : std::get<std::vector<TextPart>>(parts)) {
        if (!part.is_variable) {
            *literal = part.text;
            is_behind_variable = false;
            continue;
        }
        if (is_behind_variable) { // nobody knows where the second one begins, nor asks for both
            format.names_.back() += '$' + part.text;
            continue;
        }
        format.names_.push_back(part.text);
        literal = &format.parts_.emplace_back().text_behind;
        is_behind_variable = true;
    }
    if (format.names_.empty()) {
        return "--format: there is no variable in it";
    }
    return format;
}

std::optional<size_t> LogFormat::field_of(std::string_view variable) const {
    const auto found = std::ranges::find(names_, variable);
    return found != names_.end() ? std::optional<size_t>(found - names_.begin()) : std::nullopt;
}

/// Returns npos if the text behind the field is not there. In JSON a quote that belongs to the
/// value has a backslash before it.
size_t LogFormat::end_of_field(std::string_view line, size_t begin, std::string_view text_behind,
                               bool is_last) const {
    if (is_last) {
        const size_t end = line.size() - std::min(line.size(), text_behind.size());
        return end >= begin && line.substr(end) == text_behind ? end : std::string_view::npos;
    }
    if (escapes_ == Escapes::json && text_behind.starts_with('"')) {
        for (size_t at = begin; at < line.size(); ++at) {
            if (line[at] == '\\') {
                ++at;
            } else if (line.substr(at).starts_with(text_behind)) {
                return at;
            }
        }
        return std::string_view::npos;
    }
    return text_behind.size() == 1 ? line.find(text_behind.front(), begin)
                                   : line.find(text_behind, begin);
}

bool LogFormat::split(std::string_view line, std::span<Field> out) const {
    if (!line.starts_with(text_before_)) {
        return false;
    }
    size_t at = text_before_.size();
    for (size_t i = 0; i < parts_.size(); ++i) {
        const std::string_view text_behind = parts_[i].text_behind;
        const size_t end = end_of_field(line, at, text_behind, i + 1 == parts_.size());
        if (end == std::string_view::npos) {
            return false;
        }
        out[i] = {.begin = static_cast<uint32_t>(at), .size = static_cast<uint32_t>(end - at)};
        at = end + text_behind.size();
    }
    return true;
}

std::string_view LogFormat::decode(std::string_view written, std::string &buffer) const {
    if (written == "-" && escapes_ != Escapes::json) {
        return {};
    }
    if (escapes_ == Escapes::none || written.find('\\') == std::string_view::npos) {
        return written;
    }
    buffer.clear();
    while (!written.empty()) {
        const size_t plain = std::min(written.find('\\'), written.size());
        buffer += written.substr(0, plain);
        written.remove_prefix(plain);
        if (!written.empty()) {
            written.remove_prefix(1);
            take_escape(written, buffer);
        }
    }
    return buffer;
}

} // namespace replay
