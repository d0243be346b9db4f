#include "simulation/redis/resp.hpp"

#include <charconv>

namespace simulation {

namespace {

/// Reads `*N` or `$N` and its line end at the front of `bytes`, which moves on. Returns nothing if
/// the line is not there as a whole.
std::optional<size_t> take_number(std::string_view &bytes) {
    const size_t end = bytes.find("\r\n");
    if (end == std::string_view::npos) {
        return std::nullopt;
    }
    size_t number = 0;
    std::from_chars(bytes.data() + 1, bytes.data() + end, number);
    bytes.remove_prefix(end + 2);
    return number;
}

} // namespace

std::optional<std::vector<std::string_view>> take_command(std::string_view &bytes) {
    std::string_view rest = bytes;
    const auto count = take_number(rest);
    if (!count) {
        return std::nullopt;
    }
    std::vector<std::string_view> words;
    for (size_t i = 0; i < *count; ++i) {
        const auto size = take_number(rest);
        if (!size || rest.size() < *size + 2) {
            return std::nullopt;
        }
        words.push_back(rest.substr(0, *size));
        rest.remove_prefix(*size + 2);
    }
    bytes = rest;
    return words;
}

std::span<const std::string_view> keys_of(std::span<const std::string_view> words) {
    if (words[0] == "UNLINK") {
        return words.subspan(1);
    }
    if (!words[0].starts_with("EVAL")) {
        return words.subspan(1, words.size() > 1 ? 1 : 0);
    }
    size_t count = 0;
    if (words.size() > 2) {
        std::from_chars(words[2].data(), words[2].data() + words[2].size(), count);
    }
    return words.size() >= 3 + count ? words.subspan(3, count) : words.subspan(words.size());
}

std::string error_reply(std::string_view text) {
    return "-" + std::string(text.substr(0, text.find_first_of("\r\n"))) + "\r\n";
}

std::string status_reply(std::string_view text) {
    return "+" + std::string(text) + "\r\n";
}

std::string bulk_reply(std::string_view text) {
    return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

std::string number_reply(int64_t number) {
    return ":" + std::to_string(number) + "\r\n";
}

std::string list_reply(std::span<const std::string> replies) {
    std::string list = "*" + std::to_string(replies.size()) + "\r\n";
    for (const std::string &reply : replies) {
        list += reply;
    }
    return list;
}

} // namespace simulation
