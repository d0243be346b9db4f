#include "redis_client/script/script.hpp"

#include "rate_limit/algorithms/algorithm_family.hpp"
#include "redis_client/script/lua_source.hpp"

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

/// Gives the numbered names of the parts of a script distinct numbers.
class Renumbering {
  public:
    /// The texts before and after a number that was renamed.
    struct NewText {
        std::string_view before, after;
    };

    Renumbering(const NewText &key, const NewText &argument, const NewText &reply)
        : names_{{"KEYS[", key}, {"ARGV[", argument}, {"REPLY[", reply}} {}

    /// Turns `ARGV[3]` into `ARGV[<offset + 3>]`, or the same with other texts around the number.
    struct Name {
        std::string_view before;
        NewText renamed;
        size_t offset = 0;
        size_t largest = 0; // after renumbering
    };

    /// Renames the numbers in one part of a rule.
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

    /// The next parts belong to another rule.
    void next_rule() {
        for (Name &name : names_) {
            name.offset = name.largest;
        }
    }

    size_t keys() const { return names_[0].largest; }
    size_t arguments() const { return names_[1].largest; }
    size_t replies() const { return names_[2].largest; }

  private:
    static std::string rename(Name &name, std::string_view &text) {
        size_t number = 0;
        const char *end =
            std::from_chars(text.data(), text.data() + text.size(), number).ptr + 1; // and "]"
        text.remove_prefix(static_cast<size_t>(end - text.data()));
        number += name.offset;
        name.largest = std::max(name.largest, number);
        return std::string(name.renamed.before) + std::to_string(number) +
               std::string(name.renamed.after);
    }

    Name names_[3];
};

/// `KEYS[i + 0], KEYS[i + 1]`
std::string list(const std::string &before, size_t first, size_t count,
                 std::string_view after = {}) {
    std::string names;
    for (size_t i = first; i < first + count; ++i) {
        names += (i == first ? "" : ", ") + before + std::to_string(i);
        names += after;
    }
    return names;
}

void replace(std::string &text, std::string_view what, std::string_view by) {
    const size_t at = text.find(what);
    if (at != std::string::npos) {
        text.replace(at, what.size(), by);
    }
}

constexpr Renumbering::NewText as_argument{"ARGV[", "]"};
constexpr Renumbering::NewText as_local_reply{"reply_", ""};

/// How many checks one call of a script decides.
enum class ChecksOfCall { one, many };

/// Whether a script charges what all rules grant. One that does not is told that another rule
/// denies.
enum class Charging { yes, never };

/// Puts all rules of the shape into the frame of lua/one_check.lua or lua/batch_of_checks.lua.
Script assemble(const ScriptShape &shape, ChecksOfCall checks_of_call,
                Charging charging = Charging::yes) {
    const bool is_batch = checks_of_call == ChecksOfCall::many;
    const LuaFrame frame = is_batch ? lua_batch_of_checks() : lua_one_check();
    Renumbering renumbering(is_batch ? Renumbering::NewText{"key_", ""}
                                     : Renumbering::NewText{"KEYS[", "]"},
                            as_argument, as_local_reply);
    std::string checks;
    std::string charges;
    size_t leasing = 0;
    for (const auto &[algorithm, dry_run, may_lease, blocks] : shape.parts()) {
        const LuaSource source = lua_source(algorithm);
        checks += renumbering.apply(without_comments(source.check));
        std::string charge = renumbering.apply(without_comments(source.charge));
        if (may_lease) {
            std::string lease = renumbering.apply(without_comments(source.lease));
            replace(lease, "WANTED", "wanted_" + std::to_string(++leasing));
            charge += lease;
        }
        renumbering.next_rule();
        if (blocks) {
            checks += renumbering.apply(without_comments(lua_block().check));
            charge += renumbering.apply(without_comments(lua_block().charge));
            renumbering.next_rule();
        }
        charges.insert(0, "end\n" + charge);
        checks += dry_run ? "do\n" : "granted = granted and fits\ndo\n";
    }
    const std::string replies = list("reply_", 1, renumbering.replies());
    const size_t keys = renumbering.keys();
    const size_t arguments = renumbering.arguments();
    std::string parameters = list("key_", 1, keys);
    std::string of_check = list("KEYS[i + ", 0, keys, "]");
    std::string wanted;
    if (leasing > 0) {
        wanted = "local " + list("wanted_", 1, leasing) + " = " +
                 list("ARGV[", arguments + 1, leasing, "]") + "\n";
        parameters += ", " + list("wanted_", 1, leasing);
        of_check += ", " + list("ARGV[(i - 1) / " + std::to_string(keys) + " * " +
                                    std::to_string(leasing) + " + ",
                                arguments + 1, leasing, "]");
    }
    std::string text = without_comments(frame.head) + (is_batch ? "" : wanted) + "local " +
                       replies + "\n" + checks + charges + without_comments(frame.tail);
    if (charging == Charging::never) {
        replace(text, "local granted = true", "local granted = false");
    }
    std::string format = "'<i8";
    for (size_t i = 0; i < renumbering.replies(); ++i) {
        format += "i8";
    }
    replace(text, "REPLY_FORMAT", format + "'");
    replace(text, "REPLY", replies);
    replace(text, "PARAMETERS", parameters);
    replace(text, "KEY_COUNT", std::to_string(keys));
    replace(text, "ARGUMENTS_OF_CHECK", of_check);
    replace(text, "ANSWER_SIZE", std::to_string(8 * (1 + renumbering.replies())));
    return Script(text);
}

/// Names the function of lua/block.lua in lua/any_rules.lua. No family has it.
constexpr char letter_of_block = 'b';

/// Names the function of an algorithm's family in lua/any_rules.lua.
char letter_of(Algorithm algorithm) {
    return rate_limit::traits_of(algorithm).family.letter;
}

/// Returns a function that lua/any_rules.lua calls by that letter.
std::string rule_function(char letter, const LuaSource &source) {
    Renumbering renumbering({"key_", ""}, {"ARGV[argument + ", "]"}, {"replies[reply + ", "]"});
    const std::string check = renumbering.apply(without_comments(source.check));
    const std::string charge = renumbering.apply(without_comments(source.charge));
    return std::string("rules.") + letter +
           " = {arguments = " + std::to_string(renumbering.arguments()) +
           ", replies = " + std::to_string(renumbering.replies()) +
           ", check = function(key_1, argument, reply)\n" + check + "return fits, function()\n" +
           charge + "end\nend}\n";
}

/// Whether 64 bits hold all numbers of so many digits.
constexpr bool is_power_in_range(uint64_t base, size_t digits) {
    uint64_t rest = UINT64_MAX;
    for (size_t i = 0; i < digits; ++i) {
        rest /= base;
    }
    return rest > 0;
}

} // namespace

Script::Script(std::string a_source) : source(std::move(a_source)), sha1(sha1_hex(source)) {}

bool ScriptShape::holds_permits() const {
    return std::ranges::any_of(parts(), rate_limit::holds_permits, &Part::algorithm);
}

uint64_t ScriptShape::code() const {
    constexpr uint64_t kinds = 5; // a part that blocks is nothing else
    constexpr uint64_t algorithms = rate_limit::all_algorithms.size();
    constexpr uint64_t base = 1 + kinds * algorithms;
    static_assert(is_power_in_range(base, most_rules));
    uint64_t code = 0;
    for (const auto &[algorithm, dry_run, may_lease, blocks] : parts()) {
        const uint64_t kind = blocks ? kinds - 1 : (dry_run ? 1U : 0U) + (may_lease ? 2U : 0U);
        // No digit is 0, so that the count shows, too.
        code = code * base + 1 + static_cast<uint64_t>(algorithm) + algorithms * kind;
    }
    return code;
}

std::string_view ScriptShape::letters(Letters &out) const {
    size_t count = 0;
    for (const Part &part : parts()) {
        const char letter = letter_of(part.algorithm);
        out[count++] = part.dry_run ? static_cast<char>(letter - 'a' + 'A') : letter;
        if (part.blocks) {
            out[count++] = letter_of_block;
        }
    }
    return {out.data(), count};
}

Script check_script(const ScriptShape &shape) {
    return assemble(shape, ChecksOfCall::one);
}

Script batch_script(const ScriptShape &shape) {
    return assemble(shape, ChecksOfCall::many);
}

Script any_rules_script(Blocks blocks) {
    std::string rules;
    if (blocks == Blocks::yes) {
        rules = rule_function(letter_of_block, lua_block());
    }
    std::string letters;
    for (const Algorithm algorithm : rate_limit::all_algorithms) {
        const char letter = letter_of(algorithm);
        if (letters.find(letter) == std::string::npos) { // the first of its family
            letters += letter;
            rules += rule_function(letter, lua_source(algorithm));
        }
    }
    Script script(without_comments(lua_any().head) + rules + without_comments(lua_any().tail));
    script.is_of_any_rules = true;
    return script;
}

Script refund_script(const Algorithm &algorithm) {
    return Script(without_comments(lua_one_check().head) +
                  without_comments(lua_source(algorithm).refund));
}

Script peek_script(const ScriptShape::Part &rule) {
    ScriptShape alone;
    alone.add(rule);
    return assemble(alone, ChecksOfCall::one, Charging::never);
}

Script settlement_script(Algorithm algorithm, SettlementKind kind) {
    const LuaSource source = lua_source(algorithm);
    Renumbering renumbering({"key_", ""}, {"argument_", ""}, as_local_reply);
    std::string body;
    if (kind == SettlementKind::refund) {
        body = renumbering.apply(without_comments(source.refund));
    } else {
        body =
            renumbering.apply(without_comments(source.check)) +
            "local granted = true\nfits = true\n" +
            renumbering.apply(without_comments(source.debt.empty() ? source.charge : source.debt));
    }
    if (renumbering.replies() > 0) { // nobody reads them
        body.insert(0, "local " + list("reply_", 1, renumbering.replies()) + "\n");
    }
    std::string text =
        without_comments(lua_settlements().head) + body + without_comments(lua_settlements().tail);
    const size_t keys = renumbering.keys();
    const size_t arguments = renumbering.arguments();
    replace(text, "KEY_COUNT", std::to_string(keys));
    replace(text, "ARGUMENT_COUNT", std::to_string(arguments));
    replace(text, "PARAMETERS", list("key_", 1, keys) + ", " + list("argument_", 1, arguments));
    replace(text, "ARGUMENTS",
            list("keys[key_at + ", 1, keys, "]") + ", " +
                list("arguments[at + ", 1, arguments, "]"));
    return Script(text);
}

Script renew_script() {
    return Script(without_comments(lua_one_check().head) +
                  without_comments(lua_source(rate_limit::algorithm_of_permits).renew));
}

ScriptLibrary::ScriptLibrary()
    : any_rules_(any_rules_script(Blocks::no)),
      any_rules_with_blocks_(any_rules_script(Blocks::yes)),
      release_(refund_script(rate_limit::algorithm_of_permits)),
      renew_(renew_script()) {
    for (const Algorithm algorithm : rate_limit::all_algorithms) {
        for (size_t kind = 0; kind < settlement_kinds; ++kind) {
            settlements_[kind].push_back(
                settlement_script(algorithm, static_cast<SettlementKind>(kind)));
        }
    }
}

void ScriptLibrary::add(const ScriptShape &shape) {
    const bool is_too_long = shape.has_blocks() && shape.parts().size() > most_rules_with_blocks;
    if (is_too_long || scripts_.contains(shape.code())) {
        return;
    }
    Scripts scripts{.check = check_script(shape), .batch = std::nullopt};
    if (!shape.holds_permits()) {
        scripts.batch = batch_script(shape);
    }
    scripts_.try_emplace(shape.code(), std::move(scripts));
}

const Script &ScriptLibrary::check(const ScriptShape &shape) const {
    const auto found = scripts_.find(shape.code());
    if (found != scripts_.end()) {
        return found->second.check;
    }
    return shape.has_blocks() ? any_rules_with_blocks_ : any_rules_;
}

const Script *ScriptLibrary::batch(const ScriptShape &shape) const {
    const auto found = scripts_.find(shape.code());
    return found != scripts_.end() && found->second.batch ? &*found->second.batch : nullptr;
}

const Script &ScriptLibrary::settlement(Algorithm algorithm, SettlementKind kind) const {
    return settlements_[static_cast<size_t>(kind)][static_cast<size_t>(algorithm)];
}

} // namespace redis_client
