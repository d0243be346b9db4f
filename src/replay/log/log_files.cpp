#include "replay/log/log_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace replay {

namespace {

constexpr size_t longest_line = size_t{64} * 1024;
constexpr unsigned read_at_once = 256 * 1024;

} // namespace

void LogFile::Close::operator()(gzFile_s *file) const {
    gzclose(file);
}

std::unique_ptr<LogFile> LogFile::open(const std::string &path) {
    const int file = path == "-" ? dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (file == -1 || fstat(file, &status) != 0) {
        return nullptr;
    }
    if (S_ISDIR(status.st_mode)) {
        close(file);
        errno = EISDIR;
        return nullptr;
    }
    auto log = std::make_unique<LogFile>();
    log->path_ = path;
    log->is_regular_ = S_ISREG(status.st_mode) && path != "-";
    log->size_ = S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0;
    log->file_.reset(gzdopen(file, "rb"));
    if (!log->file_) {
        close(file);
        return nullptr;
    }
    gzbuffer(log->file_.get(), read_at_once);
    log->buffer_.resize(longest_line + read_at_once);
    return log;
}

uint64_t LogFile::read_so_far() const {
    return static_cast<uint64_t>(std::max<z_off_t>(gzoffset(file_.get()), 0));
}

/// Returns false at the end of the file.
bool LogFile::fill() {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    const int size = gzread(file_.get(), buffer_.data() + end_,
                            std::min(read_at_once, static_cast<unsigned>(buffer_.size() - end_)));
    const int error = errno;
    int code = Z_OK;
    gzerror(file_.get(), &code);
    if (size < 0 || (size == 0 && code == Z_BUF_ERROR)) {
        error_ = path_ + ": " +
                 (code == Z_ERRNO       ? std::strerror(error)
                  : code == Z_BUF_ERROR ? "the compressed file is cut off"
                                        : "the compressed file is damaged");
    }
    is_at_end_ = size <= 0;
    end_ += static_cast<size_t>(std::max(size, 0));
    if (std::exchange(is_at_begin_, false)) {
        find_other_compression();
    }
    return !is_at_end_;
}

/// zlib reads what it does not know as it is.
void LogFile::find_other_compression() {
    using namespace std::string_view_literals;
    constexpr struct {
        std::string_view begin;
        std::string_view program;
    } compressions[] = {
        {"\xfd"
         "7zXZ\0"sv,
         "xz"},
        {"\x28\xb5\x2f\xfd"sv, "zstd"},
        {"BZh"sv, "bzip2"},
        {"\x04\x22\x4d\x18"sv, "lz4"},
    };
    const std::string_view text(buffer_.data(), end_);
    for (const auto &[begin, program] : compressions) {
        if (text.starts_with(begin)) {
            const std::string name(program);
            error_ = path_;
            error_.append(": is compressed by ").append(name).append(", which is not read here; ");
            error_.append(name).append(" -dc FILE | redis-rate-limit-replay ... - reads it");
            end_ = 0;
            is_at_end_ = true;
        }
    }
}

std::optional<std::string_view> LogFile::next() {
    size_t searched = 0;
    while (true) {
        const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
        const size_t end = rest.find('\n', searched);
        if (end != std::string_view::npos) {
            begin_ += end + 1;
            if (skips_line_) {
                skips_line_ = false;
                searched = 0;
                continue;
            }
            const std::string_view line = rest.substr(0, end);
            const bool has_return = line.ends_with('\r');
            return line.substr(0, std::min(line.size() - (has_return ? 1 : 0), longest_line));
        }
        if (is_at_end_ || rest.size() >= longest_line) {
            begin_ = end_;
            const bool is_line = !rest.empty() && !skips_line_;
            skips_line_ = !is_at_end_;
            if (is_line) {
                return rest.substr(0, longest_line);
            }
            if (is_at_end_) {
                return std::nullopt;
            }
            searched = 0;
            continue;
        }
        searched = rest.size();
        fill();
    }
}

} // namespace replay
