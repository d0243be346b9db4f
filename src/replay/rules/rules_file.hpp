// The rules that are replayed: the file of `--rules`, read as nginx reads its configuration.
#pragma once

#include "rate_limit/settings/rule_parameters.hpp"
#include "rate_limit/settings/zone_parameters.hpp"
#include "rate_limit/text/key.hpp"
#include "redis_client/wire/resp.hpp"
#include "replay/rules/variables.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace replay {

struct Zone : rate_limit::ZoneParameters {
    CompiledText key;
    bool key_is_binary_address = false; // it is $binary_remote_addr, and is shown as text
};

/// How long a permit of `concurrency`, and its key, are asked for. nginx asks for the rule's
/// window, and renews it until the request ends. The replay gives each permit back when its request
/// ends, and need not renew what lasts longer than any request.
inline constexpr std::chrono::milliseconds lasting_permit = std::chrono::hours{24 * 3652};

struct Rule : rate_limit::RuleParameters {
    // The compiled texts of RuleParameters; nothing: there is none.
    std::optional<CompiledText> limit, burst, cost, final_cost;
    const Zone *zone = nullptr;
    std::string name;
    std::optional<rate_limit::KeyFormat> key_format;
    std::vector<redis_client::WireWords> arguments; // one for each shard; unused with variables
    size_t counted_as = 0;                          // rules of one zone and name are one entry

    rate_limit::Quota &quota() { return rule.quota; }
    const rate_limit::Quota &quota() const { return rule.quota; }
};

/// The rules of one level, and the locations below it.
struct Level {
    enum class Match { prefix, prefix_alone, exact };

    Match match = Match::prefix; // `^~` is prefix_alone: it is a prefix, for there are no regexes
    std::string path;
    std::vector<const Rule *> rules; // of its own, or else those of the level around it
    bool dry_run = false;
    bool answers_at_once = false; // by `return`, before any rule is applied
    std::vector<Level> locations;

    /// Returns the level that serves a path.
    const Level &serving(std::string_view path) const;
};

struct RulesFile {
    std::vector<std::unique_ptr<Zone>> zones;
    std::vector<std::unique_ptr<Rule>> rules;
    std::vector<std::string> warnings;
    Level server;
};

/// The keys of some zones, instead of those in the file: name and text.
using ZoneKeys = std::vector<std::pair<std::string, std::string>>;

/// Reads the file, and compiles its texts. `prefix` stands before each Redis key.
std::variant<RulesFile, Error> read_rules_file(const std::string &path, const ZoneKeys &zone_keys,
                                               std::string_view prefix, Variables &variables);

} // namespace replay
