#include "replay/log/log_format.hpp"

#include "rate_limit/text/url_text.hpp"
#include "replay/syntax/variable_text.hpp"

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

/// Finds the text of a format: what stands between the quotes, also where these, or all of the
/// directive `log_format`, were given, as they are copied from nginx.conf.
std::optional<Error> find_text(std::string_view given, std::string &text) {
    constexpr std::string_view name = "log_format";
    constexpr const char *spaces = " \t\r\n";
    const std::string_view trimmed =
        given.substr(std::min(given.find_first_not_of(spaces), given.size()));
    const bool is_directive =
        trimmed.starts_with(name) && trimmed.find_first_of(spaces) == name.size();
    if (!is_directive && !trimmed.starts_with('\'')) {
        text = text_in_quotes(given);
        return std::nullopt;
    }
    const std::string directive(trimmed.substr(0, trimmed.find_last_not_of(" \t\r\n;") + 1));
    auto read = read_config_text(directive + ";", name);
    if (auto *error = std::get_if<Error>(&read)) {
        return *error;
    }
    const auto &directives = std::get<std::vector<Directive>>(read);
    if (directives.size() != 1 || directives[0].has_block) {
        return "expected one log_format";
    }
    constexpr size_t behind_name = 2;
    const auto &words = directives[0].words;
    for (size_t i = is_directive ? behind_name : 0; i < words.size(); ++i) {
        text += words[i];
        const bool is_escape = is_directive && i == behind_name && text.starts_with("escape=");
        text += is_escape ? " " : "";
    }
    return std::nullopt;
}

bool is_without_spaces(FieldKind kind) {
    switch (kind) {
    case FieldKind::word:
    case FieldKind::method:
    case FieldKind::address:
    case FieldKind::whole_number:
    case FieldKind::decimal:
    case FieldKind::decided:
    case FieldKind::status:
    case FieldKind::time_iso8601:
        return true;
    default:
        return false;
    }
}

} // namespace

std::variant<LogFormat, Error> LogFormat::read(std::string_view text) {
    std::string found;
    if (const auto error = find_text(text, found)) {
        return "--format: " + *error;
    }
    std::string_view meant = found;
    LogFormat format;
    constexpr std::pair<std::string_view, Escapes> prefixes[] = {
        {"escape=json ", Escapes::json},
        {"escape=none ", Escapes::none},
        {"escape=default ", Escapes::usual},
    };
    for (const auto &[prefix, escapes] : prefixes) {
        if (meant.starts_with(prefix)) {
            meant.remove_prefix(prefix.size());
            format.escapes_ = escapes;
            break;
        }
    }
    if (meant.find('\n') != std::string_view::npos) {
        return "--format: it has a line break, so that a request takes several lines of the log, "
               "which "
               "cannot be read";
    }
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
        const FieldKind kind = kind_of(part.text);
        if (is_behind_variable) { // nobody knows where the second one begins, nor asks for both
            Part &both = format.parts_.back();
            both.name += '$' + part.text;
            both.kind = is_without_spaces(both.kind) && is_without_spaces(kind) ? FieldKind::word
                                                                                : FieldKind::text;
            continue;
        }
        literal =
            &format.parts_.emplace_back(Part{.name = part.text, .kind = kind, .text_behind = {}})
                 .text_behind;
        is_behind_variable = true;
    }
    if (format.parts_.empty()) {
        return "--format: there is no variable in it";
    }
    return format;
}

std::optional<size_t> LogFormat::field_of(std::string_view variable) const {
    const auto found = std::ranges::find(parts_, variable, &Part::name);
    return found != parts_.end() ? std::optional<size_t>(found - parts_.begin()) : std::nullopt;
}

std::string_view LogFormat::decode(std::string_view written, std::string &buffer) const {
    if (written == "-" && escapes_ == Escapes::usual) {
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
