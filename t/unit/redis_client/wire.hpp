// The Redis protocol as its other end sees it.
#pragma once

#include "redis_client/wire/resp.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {

using WireCommand = std::vector<std::string>;
using Commands = std::vector<WireCommand>;

/// Reads `*<number>\r\n` or `$<number>\r\n`.
inline size_t take_prefix(char kind, std::string_view &bytes) {
    EXPECT_EQ(bytes.substr(0, 1), std::string_view(&kind, 1));
    const size_t end = bytes.find("\r\n");
    const size_t number = std::stoul(std::string(bytes.substr(1, end - 1)));
    bytes.remove_prefix(end + 2);
    return number;
}

inline std::string take_word(std::string_view &bytes) {
    const size_t size = take_prefix('$', bytes);
    const std::string word(bytes.substr(0, size));
    EXPECT_EQ(bytes.substr(size, 2), "\r\n");
    bytes.remove_prefix(size + 2);
    return word;
}

/// The commands in `bytes`, which must be whole and well-formed.
inline Commands parse_commands(std::string_view bytes) {
    Commands commands;
    while (!bytes.empty()) {
        WireCommand command(take_prefix('*', bytes));
        for (std::string &word : command) {
            word = take_word(bytes);
        }
        commands.push_back(command);
    }
    return commands;
}

inline WireCommand words_of(const WireWords &words) {
    WireCommand all;
    for (std::string_view bytes = words.bytes(); !bytes.empty();) {
        all.push_back(take_word(bytes));
    }
    EXPECT_EQ(all.size(), words.count());
    return all;
}

/// The clock of a host for commands without a calendar.
inline std::chrono::microseconds any_time() {
    return std::chrono::microseconds{0};
}

/// A script's numbers: 8 bytes each, the lowest first.
inline std::string packed(const std::vector<int64_t> &numbers) {
    std::string bytes;
    for (const int64_t number : numbers) {
        for (int shift = 0; shift < 64; shift += 8) {
            bytes += static_cast<char>(static_cast<uint64_t>(number) >> shift & 0xff);
        }
    }
    return bytes;
}

inline std::string bulk_string(std::string_view text) {
    return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

} // namespace redis_client
