#include "replay/syntax/config_file.hpp"

#include <glob.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace replay {

namespace {

enum class Token { word, semicolon, opening, closing, end, error };

bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/// Appends a character of a text in the syntax of nginx.conf, or what an escape stands for. Of a
/// backslash before any other character both stay. Returns how much of the text that was.
size_t take_character(std::string_view text, std::string &out) {
    constexpr std::string_view escapes = "\"'\\tnr";
    constexpr std::string_view meanings = "\"'\\\t\n\r";
    if (text.size() < 2 || text.front() != '\\') {
        out += text.front();
        return 1;
    }
    const size_t known = escapes.find(text[1]);
    if (known != std::string_view::npos) {
        out += meanings[known];
    } else {
        out += text.substr(0, 2);
    }
    return 2;
}

class ConfigReader {
  public:
    ConfigReader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

    std::variant<std::vector<Directive>, Error> read() {
        std::vector<Directive> directives;
        if (read_block(directives, 0)) {
            return directives;
        }
        return error_;
    }

  private:
    std::string place() const { return std::string(name_) + ":" + std::to_string(line_); }

    bool fail(std::string_view what) {
        error_ = place() + ": " + std::string(what);
        return false;
    }

    /// Reads directives up to the end of the block, or of the file, whose depth is 0.
    bool read_block(std::vector<Directive> &directives, int depth) {
        constexpr int deepest = 100;
        const bool is_inner = depth > 0;
        if (depth > deepest) {
            return fail("there are too many blocks in each other");
        }
        while (true) {
            Directive directive;
            Token token = next();
            directive.place = place();
            for (; token == Token::word; token = next()) {
                directive.words.push_back(word_);
            }
            switch (token) {
            case Token::error:
                return false;
            case Token::end:
                return is_inner || !directive.words.empty()
                           ? fail(R"(unexpected end of file, expecting ";" or "}")")
                           : true;
            case Token::closing:
                return is_inner && directive.words.empty() ? true : fail("unexpected \"}\"");
            case Token::opening:
                directive.has_block = true;
                break;
            case Token::semicolon:
            case Token::word:
                break;
            }
            if (directive.words.empty()) {
                return fail(token == Token::opening ? "unexpected \"{\"" : "unexpected \";\"");
            }
            if (directive.has_block && !(directive.name().ends_with("_by_lua_block")
                                             ? skip_lua()
                                             : read_block(directive.block, depth + 1))) {
                return false;
            }
            directives.push_back(std::move(directive));
        }
    }

    /// Goes behind the `}` that ends a block of Lua: not one in a string or a comment.
    bool skip_lua() {
        for (int depth = 1; depth > 0;) {
            if (at_end()) {
                return fail("unexpected end of file in a block of Lua");
            }
            const std::string_view rest = text_.substr(at_);
            const char c = rest.front();
            if (rest.starts_with("--") && size_of_long_bracket(rest.substr(2)) == 0) {
                skip(rest.find('\n'));
            } else if (const size_t size = size_of_long_bracket(rest)) {
                skip(size);
            } else if (c == '"' || c == '\'') {
                skip(size_of_lua_string(rest));
            } else {
                depth += c == '{' ? 1 : c == '}' ? -1 : 0;
                advance();
            }
        }
        return true;
    }

    /// Returns the size of a text such as `[[...]]` or `[=[...]=]`, or 0 if none begins here.
    static size_t size_of_long_bracket(std::string_view text) {
        const size_t second = text.find_first_not_of('=', 1);
        if (!text.starts_with('[') || second == std::string_view::npos || text[second] != '[') {
            return 0;
        }
        const std::string end = "]" + std::string(second - 1, '=') + "]";
        const size_t at = text.find(end, second + 1);
        return at == std::string_view::npos ? text.size() : at + end.size();
    }

    static size_t size_of_lua_string(std::string_view text) {
        size_t at = 1;
        while (at < text.size() && text[at] != text.front()) {
            at += text[at] == '\\' ? 2 : 1;
        }
        return std::min(at + 1, text.size());
    }

    void skip(size_t size) {
        const size_t end = at_ + std::min(size, text_.size() - at_);
        while (at_ < end) {
            advance();
        }
    }

    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool at_end() const { return at_ == text_.size(); }
    void advance() { line_ += text_[at_++] == '\n' ? 1 : 0; }

    void skip_spaces_and_comments() {
        while (!at_end() && (is_space(peek()) || peek() == '#')) {
            if (peek() == '#') {
                at_ = std::min(text_.find('\n', at_), text_.size());
            } else {
                advance();
            }
        }
    }

    Token next() {
        skip_spaces_and_comments();
        if (at_end()) {
            return Token::end;
        }
        switch (peek()) {
        case ';':
            ++at_;
            return Token::semicolon;
        case '{':
            ++at_;
            return Token::opening;
        case '}':
            ++at_;
            return Token::closing;
        case '"':
        case '\'':
            return read_quoted();
        default:
            return read_plain();
        }
    }

    Token read_quoted() {
        const char quote = peek();
        ++at_;
        word_.clear();
        while (!at_end() && peek() != quote) {
            take();
        }
        if (at_end()) {
            fail("unexpected end of file in a text in quotes");
            return Token::error;
        }
        ++at_;
        if (!at_end() && !is_space(peek()) &&
            std::string_view(";{)").find(peek()) == std::string_view::npos) {
            fail(std::string("unexpected \"") + peek() + "\" behind a text in quotes");
            return Token::error;
        }
        return Token::word;
    }

    /// A `{` right behind a `$` begins the name of a variable, and no block.
    Token read_plain() {
        word_.clear();
        while (!at_end() && !is_space(peek()) && peek() != ';' &&
               (peek() != '{' || word_.ends_with('$'))) {
            take();
        }
        return Token::word;
    }

    void take() { skip(take_character(text_.substr(at_), word_)); }

    std::string_view text_;
    std::string_view name_;
    size_t at_ = 0;
    size_t line_ = 1;
    std::string word_;
    std::string error_;
};

/// Returns the number of an error, or 0.
int read_whole(const std::string &path, std::string &text) {
    struct Close {
        void operator()(std::FILE *file) const { std::fclose(file); }
    };
    const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "re"));
    if (!file) {
        return errno;
    }
    std::array<char, 16384> part;
    while (const size_t size = std::fread(part.data(), 1, part.size(), file.get())) {
        text.append(part.data(), size);
    }
    return std::ferror(file.get()) != 0 ? errno : 0;
}

std::vector<std::string> files_of(const std::string &pattern) {
    std::vector<std::string> files;
    glob_t found{};
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
        files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    }
    globfree(&found);
    return files;
}

constexpr int deepest_include = 16;

std::optional<Error> read_into(const std::string &path, const std::string &folder, int depth,
                               std::vector<Directive> &directives);

/// Puts the directives of included files in the place of the includes, whose paths are relative to
/// the folder.
std::optional<Error> follow_includes(const std::string &folder, int depth,
                                     std::vector<Directive> &directives) {
    std::vector<Directive> all;
    for (Directive &directive : directives) {
        if (directive.name() != "include" || directive.words.size() != 2) {
            if (auto error = follow_includes(folder, depth, directive.block)) {
                return error;
            }
            all.push_back(std::move(directive));
            continue;
        }
        std::string pattern = directive.words[1];
        if (!pattern.starts_with('/')) {
            pattern.insert(0, folder);
        }
        const std::vector<std::string> files = files_of(pattern);
        const bool has_wildcard = pattern.find_first_of("*?[") != std::string::npos;
        if ((files.empty() && !has_wildcard) || depth == deepest_include) {
            return directive.place + ": include: cannot read \"" + pattern + "\": " +
                   (files.empty() ? "No such file or directory"
                                  : "too many files include each other");
        }
        for (const std::string &file : files) {
            if (auto error = read_into(file, folder, depth + 1, all)) {
                return error;
            }
        }
    }
    directives = std::move(all);
    return std::nullopt;
}

std::optional<Error> read_into(const std::string &path, const std::string &folder, int depth,
                               std::vector<Directive> &directives) {
    std::string text;
    if (const int error = read_whole(path, text)) {
        return "cannot read " + path + ": " + std::strerror(error);
    }
    auto read = read_config_text(text, path);
    if (auto *error = std::get_if<Error>(&read)) {
        return *error;
    }
    auto &own = std::get<std::vector<Directive>>(read);
    if (auto error = follow_includes(folder, depth, own)) {
        return error;
    }
    directives.insert(directives.end(), std::make_move_iterator(own.begin()),
                      std::make_move_iterator(own.end()));
    return std::nullopt;
}

} // namespace

std::variant<std::vector<Directive>, Error> read_config_text(std::string_view text,
                                                             std::string_view name) {
    return ConfigReader(text, name).read();
}

std::string text_in_quotes(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        text.remove_prefix(take_character(text, out));
    }
    return out;
}

std::variant<std::vector<Directive>, Error> read_config_file(const std::string &path) {
    std::vector<Directive> directives;
    if (auto error = read_into(path, path.substr(0, path.rfind('/') + 1), 0, directives)) {
        return *error;
    }
    return directives;
}

} // namespace replay
