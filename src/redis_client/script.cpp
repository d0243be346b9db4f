#include "script.hpp"

#include "lua_source.hpp"

#include <openssl/sha.h>

#include <algorithm>
#include <charconv>

namespace redis_client {

namespace {

using rate_limit::Algorithm;

std::string sha1_hex(std::string_view text) {
    constexpr std::string_view digits = "0123456789abcdef";
    unsigned char hash[SHA_DIGEST_LENGTH];
    SHA1(reinterpret_cast<const unsigned char *>(text.data()), text.size(), hash);
    std::string hex;
    for (const unsigned char byte : hash) {
        hex += digits[byte >> 4];
        hex += digits[byte & 15];
    }
    return hex;
}

/// Redis need not store the lines that are comments.
std::string without_comments(std::string_view text) {
    std::string code;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
        const std::string_view line = text.substr(0, end);
        const size_t begin = line.find_first_not_of(" \n");
        if (begin != std::string_view::npos && !line.substr(begin).starts_with("--")) {
            code += line;
        }
        text.remove_prefix(end);
    }
    if (!code.empty() && code.back() != '\n') {
        code += '\n';
    }
    return code;
}

/// Gives the numbered names of the parts of a script distinct numbers.
class Renumbering {
  public:
    /// `ARGV[3]` becomes `ARGV[<offset + 3>]`; the same with other texts around the number.
    struct Name {
        std::string_view before, new_before, new_after;
        size_t offset = 0;
        size_t largest = 0; // after renumbering
    };

    /// Renames in one part of a rule.
    std::string apply(std::string_view text) {
        std::string renamed;
        while (!text.empty()) {
            auto *const name = std::ranges::find_if(
                names_, [&](const Name &one) { return text.starts_with(one.before); });
            if (name == std::end(names_)) {
                renamed += text.front();
                text.remove_prefix(1);
            } else {
                text.remove_prefix(name->before.size());
                renamed += rename(*name, text);
            }
        }
        return renamed;
    }

    /// The next parts are those of another rule.
    void next_rule() {
        for (Name &name : names_) {
            name.offset = name.largest;
        }
    }

    size_t replies() const { return names_[2].largest; }

  private:
    static std::string rename(Name &name, std::string_view &text) {
        size_t number = 0;
        const char *end =
            std::from_chars(text.data(), text.data() + text.size(), number).ptr + 1; // and "]"
        text.remove_prefix(static_cast<size_t>(end - text.data()));
        number += name.offset;
        name.largest = std::max(name.largest, number);
        return std::string(name.new_before) + std::to_string(number) + std::string(name.new_after);
    }

    Name names_[3] = {{"KEYS[", "KEYS[", "]"}, {"ARGV[", "ARGV[", "]"}, {"REPLY[", "reply_", ""}};
};

/// `reply_1, reply_2`
std::string reply_names(size_t count) {
    std::string names;
    for (size_t i = 1; i <= count; ++i) {
        names += (i == 1 ? "reply_" : ", reply_") + std::to_string(i);
    }
    return names;
}

void replace(std::string &text, std::string_view what, std::string_view by) {
    const size_t at = text.find(what);
    if (at != std::string::npos) {
        text.replace(at, what.size(), by);
    }
}

/// `pack('<i8i8', now, reply_1)`
std::string frame_tail(size_t replies) {
    std::string tail = without_comments(lua_frame().tail);
    std::string format = "'<i8";
    for (size_t i = 0; i < replies; ++i) {
        format += "i8";
    }
    replace(tail, "REPLY_FORMAT", format + "'");
    replace(tail, "REPLY", reply_names(replies));
    return tail;
}

} // namespace

Script::Script(std::string a_source) : source(std::move(a_source)), sha1(sha1_hex(source)) {}

bool ScriptShape::has(Algorithm algorithm) const {
    return std::ranges::any_of(parts(),
                               [&](const Part &part) { return part.algorithm == algorithm; });
}

Script check_script(const ScriptShape &shape) {
    Renumbering renumbering;
    std::string checks;
    std::string charges;
    for (const auto &[algorithm, dry_run] : shape.parts()) {
        const LuaSource source = lua_source(algorithm);
        checks += renumbering.apply(without_comments(source.check));
        checks += dry_run ? "do\n" : "granted = granted and fits\ndo\n";
        charges.insert(0, "end\n" + renumbering.apply(without_comments(source.charge)));
        renumbering.next_rule();
    }
    return Script(without_comments(lua_frame().head) + "local " +
                  reply_names(renumbering.replies()) + "\n" + checks + charges +
                  frame_tail(renumbering.replies()));
}

Script refund_script(Algorithm algorithm) {
    return Script(without_comments(lua_frame().head) +
                  without_comments(lua_source(algorithm).refund));
}

Script renew_script() {
    return Script(without_comments(lua_frame().head) +
                  without_comments(lua_source(Algorithm::concurrency).renew));
}

const Script &ScriptLibrary::check(const ScriptShape &shape) {
    for (const auto &[its_shape, script] : checks_) {
        if (its_shape == shape) {
            return script;
        }
    }
    return checks_.emplace_back(Entry<ScriptShape>{shape, check_script(shape)}).script;
}

const Script &ScriptLibrary::refund(Algorithm algorithm) {
    for (const auto &[its_algorithm, script] : refunds_) {
        if (its_algorithm == algorithm) {
            return script;
        }
    }
    return refunds_.emplace_back(Entry<Algorithm>{algorithm, refund_script(algorithm)}).script;
}

const Script &ScriptLibrary::renew() {
    if (!renew_) {
        renew_ = renew_script();
    }
    return *renew_;
}

} // namespace redis_client
