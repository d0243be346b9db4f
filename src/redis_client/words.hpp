// Texts of words between single spaces, as errors and messages of Redis are.
#pragma once

#include <string_view>

namespace redis_client {

/// The first word, which is taken off.
inline std::string_view next_word(std::string_view &text) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size() < text.size() ? word.size() + 1 : word.size());
    return word;
}

} // namespace redis_client
