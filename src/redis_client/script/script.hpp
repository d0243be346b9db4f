// The scripts that Redis runs, put together from the files of lua/: see lua/one_check.lua.
#pragma once

#include "rate_limit/rule/rule.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace redis_client {

struct Script {
    explicit Script(std::string a_source);
    std::string source;
    std::string sha1;             // 40 hex digits, its name for EVALSHA
    bool is_of_any_rules = false; // its first argument is ScriptShape::letters()
};

/// The most rules that one check may hold together: Lua has room for 200 local names.
using rate_limit::most_rules;
/// The most rules of a check that leases units, for the same reason.
inline constexpr size_t most_rules_with_leases = 8;
/// The most rules of a check that has a script of its own although some block, for the same reason.
inline constexpr size_t most_rules_with_blocks = 10;

/// What the script of a check is made for: the algorithms of its rules in order, which of them are
/// dry runs, which may lease units, and which block the clients that they deny.
class ScriptShape {
  public:
    struct Part {
        rate_limit::Algorithm algorithm;
        bool dry_run = false;
        bool may_lease = false;
        bool blocks = false; // then it is no dry run, and leases nothing
        bool operator==(const Part &) const = default;
    };

    void add(Part part) { parts_[count_++] = part; }
    bool holds_permits() const;
    bool has_blocks() const { return std::ranges::any_of(parts(), &Part::blocks); }
    bool operator==(const ScriptShape &) const = default;
    std::span<const Part> parts() const { return {parts_, count_}; }

    /// A number that no other shape has.
    uint64_t code() const;

    /// The first argument of any_rules_script(): a letter for each part, and one behind it if the
    /// part blocks.
    using Letters = std::array<char, 2 * most_rules>;
    std::string_view letters(Letters &out) const;

  private:
    Part parts_[most_rules]{};
    size_t count_ = 0;
};

/// Checks all rules of the shape, and charges them if all grant that are no dry runs. KEYS and ARGV
/// are those of the rules, one after another; then come the units that each rule is to lease that
/// may. A rule that blocks has the key and the argument of lua/block.lua behind its own.
Script check_script(const ScriptShape &shape);

/// Does the same for any number of checks in one batch. They share the ARGV of one check, but for
/// the units to lease.
Script batch_script(const ScriptShape &shape);

/// Gives the units of one charge back.
Script refund_script(const rate_limit::Algorithm &algorithm);

/// How a settlement changes what a request was charged.
enum class SettlementKind : uint8_t {
    debt,   // more is charged, above the limit, too
    refund, // units are given back
};
inline constexpr size_t settlement_kinds = 2;

/// Settles what many requests turned out to cost, by one algorithm that holds no permits:
/// lua/settlements.lua.
Script settlement_script(rate_limit::Algorithm algorithm, SettlementKind kind);

/// Decides as the check of one rule does, and charges nothing. KEYS and ARGV are those of the
/// check, but for the permit of a rule that holds some. If it is told to begin no block it writes
/// nothing.
Script peek_script(const ScriptShape::Part &rule);

/// Renews the permits of long requests: lua/concurrency.lua.
Script renew_script();

/// Whether some rules of a check block. Where none does, its script has nothing of blocks in it.
enum class Blocks : uint8_t { no, yes };

/// Checks any rules, which the arguments name: lua/any_rules.lua.
Script any_rules_script(Blocks blocks);

/// The scripts of one backend. They are made while the worker starts, for the shapes that the
/// configuration leads to, so that requests neither wait for them nor make more of them.
class ScriptLibrary {
  public:
    ScriptLibrary();

    /// Makes the scripts of a shape. Checks of a shape with too many names for Lua run the one for
    /// any rules.
    void add(const ScriptShape &shape);
    bool has(const ScriptShape &shape) const { return scripts_.contains(shape.code()); }

    /// Returns the script of one check: the one for its shape, or else one for any rules.
    const Script &check(const ScriptShape &shape) const;
    /// Returns the script of a batch, or null if the shape has none, so that each check goes alone.
    const Script *batch(const ScriptShape &shape) const;
    const Script &release() const { return release_; }
    const Script &renew() const { return renew_; }
    const Script &settlement(rate_limit::Algorithm algorithm, SettlementKind kind) const;

  private:
    struct Scripts {
        Script check;
        std::optional<Script> batch; // none if each check has an argument of its own
    };

    std::unordered_map<uint64_t, Scripts> scripts_; // by ScriptShape::code()
    Script any_rules_;
    Script any_rules_with_blocks_;
    std::vector<Script> settlements_[settlement_kinds]; // in the order of rate_limit::Algorithm
    Script release_;
    Script renew_;
};

} // namespace redis_client
