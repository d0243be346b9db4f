// The text of an nginx `log_format`, and the lines that were written by it.
#pragma once

#include "replay/log/field_kind.hpp"
#include "replay/syntax/config_file.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace replay {

/// Where the value of a variable stands in a line.
struct Field {
    uint32_t begin = 0;
    uint32_t size = 0;

    bool operator==(const Field &) const = default;
};

class LogFormat {
  public:
    /// nginx's format `combined`.
    static constexpr std::string_view combined =
        "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent "
        "\"$http_referer\" \"$http_user_agent\"";

    /// A variable, and the text up to the next one, or to the end.
    struct Part {
        std::string name;
        FieldKind kind;
        std::string text_behind;
    };

    /// Reads the text of a format, as it stands between quotes in nginx.conf, or with the quotes,
    /// or all of the directive `log_format`. `escape=json ` or `escape=none ` may stand before it.
    /// Variables without a text between them are one field, which neither of them can be taken
    /// from.
    static std::variant<LogFormat, Error> read(std::string_view text);

    const std::string &text_before() const { return text_before_; }
    const std::vector<Part> &parts() const { return parts_; }
    Escapes escapes() const { return escapes_; }

    size_t fields() const { return parts_.size(); }
    /// Returns the index of the field that has the variable's value, if there is one.
    std::optional<size_t> field_of(std::string_view variable) const;

    /// Returns the value that nginx wrote so: without its escapes, and empty for a variable that
    /// had none, which is written as `-`. It may be in `buffer`.
    std::string_view decode(std::string_view written, std::string &buffer) const;

  private:
    Escapes escapes_ = Escapes::usual;
    std::string text_before_;
    std::vector<Part> parts_;
};

} // namespace replay
