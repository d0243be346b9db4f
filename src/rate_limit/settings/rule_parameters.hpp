// What the parameters of the directive `redis_rate_limit` say: a rule, and the numbers that a
// request's variables give.
#pragma once

#include "rate_limit/rule/rule.hpp"
#include "rate_limit/text/parameters.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rate_limit {

/// When a rule is applied: before a client is authenticated, or after all that comes before its
/// answer or its data.
enum class Phase : uint8_t { access, late };
inline constexpr Phase all_phases[] = {Phase::access, Phase::late};

/// Where in nginx's configuration a rule stands.
enum class Place : uint8_t { http, stream };

/// Returns the name of the phase of nginx that Phase::late is.
constexpr std::string_view late_phase_name(Place place) {
    return place == Place::http ? "precontent" : "preread";
}

struct RuleParameters {
    Place place = Place::http;
    Rule rule;
    Phase phase = Phase::access;
    bool dry_run = false;
    bool has_delay = false; // `delay=` was given, for any algorithm
    // What `window=` says if it is no length, and what `timezone=` and `starts=` say of it.
    std::optional<CalendarUnit> calendar_unit;
    std::optional<std::string> time_zone;
    std::optional<uint64_t> starts;
    // Texts with variables that give a number of the quota. Empty: the number is in `rule`.
    std::string limit_text;
    std::string burst_text;
    std::string cost_text;
    std::string
        final_cost_text; // with variables or without; empty: a request costs what it was charged

    /// `limit=` as it was written.
    std::string shown_limit() const {
        return limit_text.empty() ? std::to_string(rule.quota.limit) : limit_text;
    }
    bool has_variables() const {
        return !limit_text.empty() || !burst_text.empty() || !cost_text.empty();
    }
};

/// Decides what each rule makes of a state that another limit has led to. The rules are all of a
/// configuration. If those of a counter have the same numbers, and none by variables, its limit has
/// changed; if not, they share it at the same time, and none may refill it at its own pace.
void decide_other_limits(std::span<RuleParameters *const> rules);

/// Reads the directive's words without its name. Adds to `warnings` what is not refused, but hardly
/// meant so.
Refusal read_rule(std::span<const std::string_view> words, RuleParameters &rule,
                  std::vector<std::string> &warnings);

/// Refuses a rule whose windows are those of another calendar than those of the rules before it, of
/// its zone and name.
class CalendarsOfNames {
  public:
    /// The rule stays where it is.
    Refusal add(const Rule &rule);

  private:
    std::map<std::pair<std::string, std::string>, const Rule *> first_; // by zone and name
};

/// Refuses a rule that cannot stand on one level with the others: pointers to RuleParameters.
template <typename Level>
Refusal refuse_beside(const Level &level, const RuleParameters &rule) {
    size_t of_its_phase = 1;
    const std::string name = rule.rule.name();
    for (const auto &other : level) {
        if (other->rule.name() == name) {
            return refused("name", name,
                           "each name once on a level: give one of the rules another name=");
        }
        of_its_phase += other->phase == rule.phase ? 1 : 0;
    }
    if (of_its_phase > most_rules) {
        return refused("number of rules", std::to_string(of_its_phase),
                       "12 of a phase on a level at most");
    }
    return std::nullopt;
}

} // namespace rate_limit
