// A request as a line of the log tells it.
#pragma once

#include "replay/log/log_format.hpp"
#include "replay/log/request_uri.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace replay {

/// Refers to the line, its format and its fields. What is worked out of them is kept.
class Request {
  public:
    Request(const LogFormat &format, std::string_view line, std::span<const Field> fields)
        : format_(format), line_(line), fields_(fields) {}

    /// Returns the value of a field, which may be in `buffer`.
    std::string_view value(size_t field, std::string &buffer) const {
        return format_.decode(line_.substr(fields_[field].begin, fields_[field].size), buffer);
    }

    /// Whether the variable had no value. nginx writes `-`, but not with escapes of another kind.
    bool is_empty(size_t field, std::string &buffer) const {
        const std::string_view text = value(field, buffer);
        return text.empty() || text == "-";
    }

    /// Finds the method, the URI and the path. `request` is the field of $request, or else
    /// `request_uri` that of $request_uri, or else `uri` that of $uri.
    struct Fields {
        std::optional<size_t> request;
        std::optional<size_t> request_uri;
        std::optional<size_t> uri;

        bool has_path() const { return request || request_uri || uri; }
    };
    void read_line(const Fields &of);

    const RequestLine &line() const { return request_line_; }
    /// The path by which nginx chooses a location. Nothing: the request got no location, because it
    /// is no valid one.
    const std::optional<std::string_view> &path() const { return path_; }

  private:
    const LogFormat &format_;
    std::string_view line_;
    std::span<const Field> fields_;
    RequestLine request_line_;
    std::optional<std::string_view> path_;
    std::string line_buffer_;
    std::string path_buffer_;
};

} // namespace replay
