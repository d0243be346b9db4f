// Texts with variables, as nginx's directives and log formats have them: `$name` or `${name}`.
#pragma once

#include "replay/syntax/config_file.hpp"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace replay {

/// A part of such a text: literal text, or the name of a variable.
struct TextPart {
    std::string text;
    bool is_variable = false;
};

/// Takes a text apart. Two literal parts never stand beside each other. The names of variables are
/// in small letters: nginx ignores their case.
std::variant<std::vector<TextPart>, Error> split_at_variables(std::string_view text);

/// Returns the text with the small letters of A to Z.
std::string in_small_letters(std::string_view text);

} // namespace replay
