// What a fuzz target makes of its input, and how it tells that something is wrong.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

namespace fuzz {

/// Ends the process where something does not hold, so that libFuzzer keeps the input.
inline void require(bool holds, const char *what) {
    if (!holds) {
        std::fprintf(stderr, "does not hold: %s\n", what);
        std::abort();
    }
}

/// Takes values off the front of any bytes. Beyond their end each value is the least one.
/// Two are never operands or arguments of one expression: their order would be the compiler's.
class Input {
  public:
    explicit Input(std::string_view bytes) : bytes_(bytes) {}

    bool empty() const { return bytes_.empty(); }

    /// From `least` to `most`, from as few bytes as that takes.
    uint64_t number(uint64_t least, uint64_t most) {
        const uint64_t range = most - least;
        uint64_t value = 0;
        for (uint64_t left = range; left > 0; left >>= 8) {
            value = value << 8 | byte();
        }
        return least + (range == UINT64_MAX ? value : value % (range + 1));
    }

    int64_t any_number() { return static_cast<int64_t>(number(0, UINT64_MAX)); }
    bool flag() { return number(0, 1) == 1; }

    template <typename Choices>
    const auto &one_of(const Choices &choices) {
        return std::data(choices)[number(0, std::size(choices) - 1)];
    }

    /// A length and so many bytes, or those that are left.
    std::string_view text(size_t most) {
        const std::string_view taken = bytes_.substr(0, number(0, most));
        bytes_.remove_prefix(taken.size());
        return taken;
    }

    std::string_view rest() { return std::exchange(bytes_, {}); }

  private:
    unsigned char byte() {
        if (bytes_.empty()) {
            return 0;
        }
        const char first = bytes_.front();
        bytes_.remove_prefix(1);
        return static_cast<unsigned char>(first);
    }

    std::string_view bytes_;
};

} // namespace fuzz
