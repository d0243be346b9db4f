// Texts with variables, as nginx's directives and log formats have them: `$name` or `${name}`.
#pragma once

#include "config_file.hpp"

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

/// Takes a text apart. Two literal parts never stand beside each other.
std::variant<std::vector<TextPart>, Error> split_at_variables(std::string_view text);

} // namespace replay
