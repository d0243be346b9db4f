// Reads files in the syntax of nginx.conf into directives, by nginx's own rules of words, quotes
// and escapes. What the directives mean is up to others.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace replay {

/// A text for the user: what is wrong, and where.
using Error = std::string;

struct Directive {
    std::vector<std::string> words; // the first of them is its name
    std::string place;              // `rules.conf:12`, for messages
    bool has_block = false;
    std::vector<Directive> block;

    std::string_view name() const { return words.front(); }
};

/// Reads a file and those that it and they include; all paths are relative to the folder of the
/// first file. An include whose file does not exist is an error, unless it has wildcards.
std::variant<std::vector<Directive>, Error> read_config_file(const std::string &path);

/// Reads a text. `name` stands for the file in messages. Includes stay as they are.
std::variant<std::vector<Directive>, Error> read_config_text(std::string_view text,
                                                             std::string_view name);

/// Returns a text as it is meant that stands between quotes in nginx.conf.
std::string text_in_quotes(std::string_view text);

} // namespace replay
