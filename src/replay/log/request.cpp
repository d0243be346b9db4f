#include "replay/log/request.hpp"

namespace replay {

void Request::read_line(const Fields &of) {
    if (of.request) {
        const auto line = read_request_line(value(*of.request, line_buffer_));
        if (line) {
            request_line_ = *line;
            path_ = normalised_path(line->uri, path_buffer_);
        }
    } else if (of.request_uri) {
        request_line_.uri = value(*of.request_uri, line_buffer_);
        path_ = normalised_path(request_line_.uri, path_buffer_);
    } else if (of.uri) {
        const std::string_view path = value(*of.uri, path_buffer_);
        path_ = path.empty() ? std::nullopt : std::optional(path);
    }
}

} // namespace replay
