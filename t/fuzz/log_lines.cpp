// Lines of a log, written in any format as nginx writes them: taken apart into the values that were
// written, or refused because there are several ways. What is taken apart of any other line, and
// written again, is that line.

#include "replay/log/line_splitter.hpp"
#include "replay/log/log_format.hpp"
#include "targets.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace fuzz {
namespace {

using replay::Escapes;
using replay::FieldKind;

constexpr std::string_view variables[] = {"http_user_agent",
                                          "http_x_forwarded_for",
                                          "host",
                                          "request_method",
                                          "remote_addr",
                                          "body_bytes_sent",
                                          "request_time",
                                          "status",
                                          "redis_rate_limit_decided",
                                          "time_local",
                                          "time_iso8601",
                                          "request",
                                          "request_uri",
                                          "upstream_status",
                                          "upstream_response_time",
                                          "upstream_addr",
                                          "upstream_response_length"};
constexpr std::string_view separators[] = {" ",    "\" \"", ", ", " : ", "\t", " - ", " [",
                                           "] \"", "|",     ":",  ".",   "-",  "\"",  "x="};

/// Text of any bytes, but for those that a format cannot hold as they are.
std::string take_separator(Input &input) {
    if (input.flag()) {
        return std::string(input.one_of(separators));
    }
    std::string text(input.text(6));
    for (char &c : text) {
        const bool is_syntax = c == '$' || c == '\\' || c == '\'' || c == '\n' || c == '"';
        c = is_syntax ? ' ' : c;
    }
    return text.empty() ? " " : text;
}

std::string take_word(Input &input, std::string_view without) {
    std::string text(input.text(8));
    std::erase_if(text, [without](char c) { return without.find(c) != std::string_view::npos; });
    return text;
}

/// nginx lets no other characters into such a variable, so that none is escaped.
std::string take_plain_word(Input &input) {
    std::string text(input.text(8));
    std::erase_if(text, [](char c) { return c <= ' ' || c == '"' || c == '\\' || c == 0x7f; });
    return text;
}

std::string take_decimal(Input &input) {
    return std::to_string(input.number(0, 99'999)) + "." +
           std::to_string(100 + input.number(0, 899));
}

std::string take_list(Input &input, auto take_element) {
    std::string text = take_element(input);
    for (uint64_t left = input.number(0, 2); left > 0; --left) {
        text += input.flag() ? ", " : " : ";
        text += take_element(input);
    }
    return text;
}

std::string take_time(Input &input, bool is_iso8601) {
    char text[32];
    const auto day = static_cast<int>(input.number(1, 28));
    const auto second = static_cast<int>(input.number(0, 59));
    std::snprintf(text, sizeof text,
                  is_iso8601 ? "2026-11-%02dT10:00:%02d+01:00" : "%02d/Nov/2026:10:00:%02d -0930",
                  day, second);
    return text;
}

/// A value that nginx may have for a variable.
std::string take_value(Input &input, FieldKind kind) {
    constexpr std::string_view addresses[] = {"192.0.2.1", "2001:db8::1",
                                              "unix:", "::ffff:1.2.3.4"};
    constexpr std::string_view methods[] = {"GET", "POST", "M-SEARCH"};
    const auto take_number = [](Input &from) { return std::to_string(from.number(0, 99'999)); };
    const auto take_status = [](Input &from) { return std::to_string(from.number(100, 999)); };
    switch (kind) {
    case FieldKind::text:
        return std::string(input.text(12));
    case FieldKind::word:
        return take_plain_word(input);
    case FieldKind::uri:
        return take_word(input, " ");
    case FieldKind::method:
        return std::string(input.one_of(methods));
    case FieldKind::address:
        return std::string(input.one_of(addresses));
    case FieldKind::whole_number:
        return take_number(input);
    case FieldKind::decimal:
    case FieldKind::decided:
        return take_decimal(input);
    case FieldKind::status:
        return take_status(input);
    case FieldKind::time_local:
        return take_time(input, false);
    case FieldKind::time_iso8601:
        return take_time(input, true);
    case FieldKind::request: {
        std::string line(input.one_of(methods));
        line += " /" + take_word(input, " ");
        return line + " HTTP/1.1";
    }
    case FieldKind::statuses:
        return take_list(input, take_status);
    case FieldKind::decimals:
        return take_list(input, take_decimal);
    case FieldKind::whole_numbers:
        return take_list(input, take_number);
    case FieldKind::words:
        break;
    }
    return take_list(input, [](Input &from) { return "a" + take_word(from, " ,"); });
}

/// As nginx writes a value.
std::string escaped(std::string_view value, Escapes escapes) {
    std::string out;
    char text[8];
    for (const char c : value) {
        const auto byte = static_cast<unsigned char>(c);
        const bool is_mark = c == '"' || c == '\\';
        if (escapes == Escapes::usual && (is_mark || byte < ' ' || byte >= 0x7f)) {
            std::snprintf(text, sizeof text, "\\x%02X", byte);
            out += text;
        } else if (escapes == Escapes::json && is_mark) {
            out += '\\';
            out += c;
        } else if (escapes == Escapes::json && byte < ' ') {
            std::snprintf(text, sizeof text, "\\u%04x", byte);
            out += text;
        } else {
            out += c;
        }
    }
    return out;
}

std::string joined(const replay::LogFormat &format, std::string_view line,
                   const std::vector<replay::Field> &fields) {
    std::string text = format.text_before();
    for (size_t i = 0; i < fields.size(); ++i) {
        text += line.substr(fields[i].begin, fields[i].size);
        text += format.parts()[i].text_behind;
    }
    return text;
}

} // namespace

void log_lines(Input input) {
    constexpr std::string_view prefixes[] = {"", "escape=json ", "escape=none "};
    std::string text(input.one_of(prefixes));
    const size_t values = input.number(1, 6);
    text += input.flag() ? take_separator(input) : "";
    for (size_t i = 0; i < values; ++i) {
        text += "${" + std::string(input.one_of(variables)) + "}";
        text += i + 1 < values || input.flag() ? take_separator(input) : "";
    }
    const auto read = replay::LogFormat::read(text);
    const auto *format = std::get_if<replay::LogFormat>(&read);
    require(format != nullptr, "a format is read");

    std::string line = format->text_before();
    std::vector<std::string> written;
    for (const auto &part : format->parts()) {
        written.push_back(take_value(input, part.kind));
        line += escaped(written.back(), format->escapes());
        line += part.text_behind;
    }
    using Result = replay::LineSplitter::Result;
    replay::LineSplitter splitter(*format, [](size_t) { return true; });
    std::vector<replay::Field> fields(format->fields());
    const Result result = splitter.split(line, fields);
    require(result != Result::other_format, "a line of the format is known as one");
    if (result == Result::split) {
        require(joined(*format, line, fields) == line, "it is written again as it was");
        std::string buffer;
        for (size_t i = 0; i < fields.size(); ++i) {
            const bool is_empty = format->escapes() == Escapes::usual && written[i] == "-";
            require(format->decode(std::string_view(line).substr(fields[i].begin, fields[i].size),
                                   buffer) == (is_empty ? "" : written[i]),
                    "the values are those that were written");
        }
    }
    const std::string_view any = input.rest();
    if (splitter.split(any, fields) == Result::split) {
        require(joined(*format, any, fields) == any, "any line is written again as it was");
    } else {
        require(!splitter.why_not(any).empty(), "or there is a reason");
    }
}

} // namespace fuzz
