// The rules that are replayed: the file of `--rules`, read as nginx reads its configuration.
#pragma once

#include "limiter/configuration.hpp"
#include "replay/rules/variables.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace replay {

/// A line of the cache, by which tables are aligned.
struct alignas(64) MemoryLine {
    std::array<std::byte, 64> bytes;
};

/// The limiter's tables of a zone. The replay has one process, so that their lock locks nothing.
class Tables final : limiter::ZoneMutex {
  public:
    Tables(limiter::ZoneMemory &memory, size_t rules);

  private:
    void lock() const override {}
    void unlock() const override {}

    std::vector<MemoryLine> lines_;
};

struct Zone : limiter::Zone {
    CompiledText key;
    std::unique_ptr<Tables> tables; // once all directives are read
};

struct Rule : limiter::Rule {
    std::array<CompiledText, 4> texts; // by their limiter::RuleText
    size_t counted_as = 0;             // rules of one zone and name are one entry
    bool leaves_lease_out = false;     // that nginx would take

    const CompiledText &text(limiter::RuleText which) const {
        return texts[static_cast<size_t>(which)];
    }
    rate_limit::Quota &quota() { return rule.quota; }
    const rate_limit::Quota &quota() const { return rule.quota; }
};

/// The rules of one level, and the locations below it.
struct Level {
    enum class Match { prefix, prefix_alone, exact };

    Match match = Match::prefix; // `^~` is prefix_alone: it is a prefix, for there are no regexes
    std::string path;
    limiter::RuleList rules; // of its own, or else those of the level around it
    bool dry_run = false;
    bool answers_at_once = false; // by `return`, before any rule is applied
    std::vector<Level> locations;

    /// Returns the level that serves a path.
    const Level &serving(std::string_view path) const;
};

struct RulesFile {
    std::unique_ptr<redis_client::BackendSettings> backend; // of all zones
    std::vector<MemoryLine> backend_memory;
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
