// Text written into a caller's buffer.
#pragma once

#include "append.hpp"
#include "headers.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

namespace rate_limit {

/// Written as a decimal number of seconds without needless digits: 60, 0.5, 0.000412.
struct Seconds {
    std::chrono::microseconds time;
};

/// Of what does not fit only the size is known, as with snprintf().
class TextWriter {
  public:
    explicit TextWriter(std::span<char> out) : out_(out) {}

    TextWriter &operator<<(std::string_view text) {
        const auto room = out_.subspan(std::min(size_, out_.size()));
        append(room.data(), text.substr(0, room.size()));
        size_ += text.size();
        return *this;
    }
    TextWriter &operator<<(uint64_t number) {
        NumberBuffer digits;
        return *this << write_number(number, digits);
    }
    TextWriter &operator<<(Seconds seconds);

    /// Of the whole text.
    size_t size() const { return size_; }

  private:
    std::span<char> out_;
    size_t size_ = 0;
};

} // namespace rate_limit
