// The text of an nginx `log_format`, and the lines that were written by it.
#pragma once

#include "config_file.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace replay {

/// Where the value of a variable stands in a line.
struct Field {
    uint32_t begin = 0;
    uint32_t size = 0;
};

class LogFormat {
  public:
    /// nginx's format `combined`.
    static constexpr std::string_view combined =
        "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent "
        "\"$http_referer\" \"$http_user_agent\"";

    /// Reads the text of a format, as it stands between quotes in nginx.conf. `escape=json ` or
    /// `escape=none ` may stand before it. Of variables without a text between them neither is a
    /// field.
    static std::variant<LogFormat, Error> read(std::string_view text);

    size_t fields() const { return names_.size(); }
    /// Returns the index of the field that has the variable's value, if there is one.
    std::optional<size_t> field_of(std::string_view variable) const;

    /// Finds the fields of a line, of which there are fields(). Returns false if the line was not
    /// written by this format.
    bool split(std::string_view line, std::span<Field> out) const;

    /// Returns the value that nginx wrote so: without its escapes, and empty for a variable that
    /// had none, which is written as `-`. It may be in `buffer`.
    std::string_view decode(std::string_view written, std::string &buffer) const;

  private:
    enum class Escapes { usual, json, none };

    /// A variable, and the text up to the next one, or to the end.
    struct Part {
        std::string text_behind;
    };

    size_t end_of_field(std::string_view line, size_t begin, std::string_view text_behind,
                        bool is_last) const;

    Escapes escapes_ = Escapes::usual;
    std::string text_before_;
    std::vector<std::string> names_;
    std::vector<Part> parts_;
};

} // namespace replay
