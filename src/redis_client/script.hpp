// The scripts that Redis runs, put together from the files of lua/: see lua/frame.lua.
#pragma once

#include "../rate_limit/rule.hpp"

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace redis_client {

struct Script {
    explicit Script(std::string a_source);
    std::string source;
    std::string sha1; // 40 hex digits, the name that EVALSHA knows it by
};

/// The most rules that one check may hold together: Lua has room for 200 local names.
inline constexpr size_t most_rules = 12;

/// What a check script is made for: its rules' algorithms and which are on trial, in order.
class ScriptShape {
  public:
    struct Part {
        rate_limit::Algorithm algorithm;
        bool dry_run;
        bool operator==(const Part &) const = default;
    };

    void add(Part part) { parts_[count_++] = part; }
    bool has(rate_limit::Algorithm algorithm) const;
    bool operator==(const ScriptShape &) const = default;
    std::span<const Part> parts() const { return {parts_, count_}; }

  private:
    Part parts_[most_rules]{};
    size_t count_ = 0;
};

/// All rules of the shape: checked, and charged where all but those on trial grant.
/// KEYS and ARGV are those of the rules, one after another.
Script check_script(const ScriptShape &shape);

/// The same for any number of checks in one run, whose ARGV is that of one.
Script run_script(const ScriptShape &shape);

/// Gives the units of one charge back.
Script refund_script(const rate_limit::Algorithm &algorithm);

/// Keeps the slots of long requests: lua/concurrency.lua.
Script renew_script();

/// The scripts of one session, each made when it is first asked for.
class ScriptLibrary {
  public:
    const Script &check(const ScriptShape &shape);
    const Script &run(const ScriptShape &shape);
    const Script &refund(rate_limit::Algorithm algorithm);
    const Script &renew();

  private:
    template <typename Key>
    struct Entry {
        Key key;
        Script script;
    };
    template <typename Key>
    using Entries = std::deque<Entry<Key>>; // references to elements stay valid

    template <typename Key>
    static const Script &find(Entries<Key> &entries, const Key &key,
                              Script (*make)(const Key &key));

    Entries<ScriptShape> checks_;
    Entries<ScriptShape> runs_;
    Entries<rate_limit::Algorithm> refunds_;
    std::optional<Script> renew_;
};

} // namespace redis_client
