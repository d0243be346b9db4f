// Text written into a caller's buffer.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

namespace rate_limit {

/// Copies `text` to `at`, where there must be room, and returns its end there.
// It is not std::ranges::copy: that of libstdc++ 12 moves one byte at a time if the source is
// const.
inline char *append(char *at, std::string_view text) {
    return std::copy(text.begin(), text.end(), at);
}

/// 20 digits hold every 64-bit number.
using NumberBuffer = std::array<char, 20>;

/// Returns the part of `out` that holds the number.
std::string_view write_number(uint64_t number, NumberBuffer &out);

/// Is written as a decimal number of seconds without needless digits: 60, 0.5, 0.000412.
struct Seconds {
    std::chrono::microseconds time;
};

/// Writes as much as fits into the buffer, and knows the size of the whole text, as snprintf()
/// does.
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

    /// The size of the whole text.
    size_t size() const { return size_; }

  private:
    std::span<char> out_;
    size_t size_ = 0;
};

} // namespace rate_limit
