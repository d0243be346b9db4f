#include "nginx_module/io/quiet_log.hpp"

#include <algorithm>

namespace nginx_module {

QuietLog::QuietLog(const ngx_log_t &log) : passing_(log), remembering_(log) {
    const bool debugs = (log.log_level & NGX_LOG_DEBUG_ALL) != 0;
    if (!debugs) {
        passing_.log_level = ngx_min(log.log_level, static_cast<ngx_uint_t>(NGX_LOG_ALERT));
        remembering_.log_level = NGX_LOG_INFO;
    }
    remembering_.next = &passing_;
    remembering_.wdata = this;
    remembering_.writer = [](ngx_log_t *self, ngx_uint_t level, u_char *line,
                             size_t size) noexcept {
        if (level <= NGX_LOG_INFO) {
            static_cast<QuietLog *>(self->wdata)
                ->remember({reinterpret_cast<const char *>(line), size});
        }
    };
}

/// Keeps the message of a line `2026/11/21 19:00:00 [info] 7#7: *3 the message`, which ends with a
/// line feed.
void QuietLog::remember(std::string_view line) {
    line = line.substr(0, line.find('\n'));
    if (const size_t process = line.find(": "); process != std::string_view::npos) {
        line.remove_prefix(process + 2);
    }
    if (line.starts_with('*')) {
        line.remove_prefix(std::min(line.size(), line.find(' ') + 1));
    }
    size_ = std::min(line.size(), text_.size());
    std::copy_n(line.data(), size_, text_.data());
}

} // namespace nginx_module
