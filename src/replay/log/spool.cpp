#include "replay/log/spool.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace replay {

namespace {

constexpr size_t buffer_size = size_t{256} * 1024;
constexpr size_t longest_request = size_t{4} * 10; // numbers of 10 bytes at most

uint64_t take(const unsigned char *&from) {
    uint64_t number = *from & 0x7F;
    for (unsigned shift = 7; *from++ >= 0x80; shift += 7) {
        number |= static_cast<uint64_t>(*from & 0x7F) << shift;
    }
    return number;
}

} // namespace

Spool::Spool() : buffer_(buffer_size) {
    const char *directory = std::getenv("TMPDIR");
    std::string path = directory != nullptr ? directory : "/tmp";
    path += "/redis-rate-limit-replay-XXXXXX";
    const int file = mkstemp(path.data());
    if (file != -1) {
        unlink(path.c_str());
        file_.reset(fdopen(file, "w+b"));
    }
    is_good_ = file_ != nullptr;
}

/// Writes 7 bits in each byte, the lowest first. The last byte has its high bit not set.
void Spool::put(uint64_t number) {
    for (; number >= 0x80; number >>= 7) {
        buffer_[end_++] = static_cast<unsigned char>(number | 0x80);
    }
    buffer_[end_++] = static_cast<unsigned char>(number);
}

void Spool::add(const Request &request) {
    if (end_ + longest_request > buffer_.size()) {
        flush();
    }
    put(static_cast<uint64_t>(request.time_us - last_us_));
    put(request.key << 1 | (request.is_rejected ? 1 : 0));
    put(static_cast<uint64_t>(request.duration_us));
    last_us_ = request.time_us;
}

void Spool::flush() {
    is_good_ = is_good_ && std::fwrite(buffer_.data(), 1, end_, file_.get()) == end_;
    end_ = 0;
}

bool Spool::finish() {
    if (is_writing_) {
        is_writing_ = false;
        flush();
        is_good_ = is_good_ && std::fflush(file_.get()) == 0;
    }
    return is_good_;
}

void Spool::rewind() {
    finish();
    at_ = end_ = 0;
    last_us_ = 0;
    std::rewind(file_.get());
}

/// Makes sure that a whole request is in the buffer, if there is one. Returns false at the end.
bool Spool::fill() {
    if (end_ - at_ < longest_request) {
        std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
        end_ -= at_;
        at_ = 0;
        end_ += std::fread(buffer_.data() + end_, 1, buffer_.size() - end_, file_.get());
    }
    return at_ < end_;
}

std::optional<Spool::Request> Spool::next() {
    if (!fill()) {
        return std::nullopt;
    }
    const unsigned char *from = buffer_.data() + at_;
    last_us_ += static_cast<int64_t>(take(from));
    const uint64_t key = take(from);
    const auto duration_us = static_cast<int64_t>(take(from));
    at_ = static_cast<size_t>(from - buffer_.data());
    return Request{.time_us = last_us_,
                   .key = key >> 1,
                   .is_rejected = (key & 1) != 0,
                   .duration_us = duration_us};
}

} // namespace replay
