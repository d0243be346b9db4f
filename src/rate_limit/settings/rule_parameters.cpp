#include "rate_limit/settings/rule_parameters.hpp"

#include "rate_limit/calendar/old_time_zones.hpp"
#include "rate_limit/rule/leasing.hpp"
#include "rate_limit/rule/shards.hpp"
#include "rate_limit/text/times_and_numbers.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

namespace rate_limit {

namespace {

using std::chrono::milliseconds;

/// A permit is renewed in the first half of its window, so that it falls free if its worker does
/// not run for the other half. Measured with eight busy processes on two cores: 200 ms lost no
/// permit in 11 runs, 150 ms in one of 5, 100 ms in two of 11, and 50 ms in four of 5.
constexpr milliseconds shortest_window_of_permits{200};

/// Where a shard has room for fewer requests at once, there is a warning: docs/directives.md says
/// how many it denies too early.
constexpr uint64_t enough_requests_of_a_shard = 16;

bool has_variable(std::string_view text) {
    return text.find('$') != std::string_view::npos;
}

/// Stores a whole number in `number`, or a text with variables in `variable`. Returns null, or what
/// was expected instead.
const char *set_number_or_variable(std::string_view value, std::optional<uint64_t> &number,
                                   std::string &variable) {
    if (has_variable(value)) {
        variable = value;
        return nullptr;
    }
    number = parse_whole_number(value, largest_number);
    return number ? nullptr : expected_number;
}

const char *set_number_or_variable(std::string_view value, uint64_t &number,
                                   std::string &variable) {
    std::optional<uint64_t> given;
    const char *expected = set_number_or_variable(value, given, variable);
    number = given.value_or(number);
    return expected;
}

const char *set_name(std::string_view value, std::string &name) {
    name = value;
    return is_name(value) ? nullptr : expected_name;
}

const char *set_algorithm(RuleParameters &rule, std::string_view value) {
    static const std::string all =
        names_of_algorithms([](const AlgorithmTraits &) { return true; });
    const auto algorithm = algorithm_named(value);
    rule.rule.quota.algorithm = algorithm.value_or(Algorithm{});
    return algorithm ? nullptr : all.c_str();
}

const char *expected_phase(Place place) {
    return place == Place::http ? "access or precontent" : "access or preread";
}

constexpr Parameter<RuleParameters> rule_parameters[] = {
    {"zone",
     [](RuleParameters &rule, std::string_view value) -> const char * {
         return set_name(value, rule.rule.zone);
     },
     Is::required},
    {"algorithm", set_algorithm, Is::required},
    {"limit",
     [](RuleParameters &rule, std::string_view value) -> const char * {
         return set_number_or_variable(value, rule.rule.quota.limit, rule.limit_text);
     },
     Is::required},
    {"burst",
     [](RuleParameters &rule, std::string_view value) -> const char * {
         return set_number_or_variable(value, rule.rule.quota.burst, rule.burst_text);
     }},
    {"delay",
     [](RuleParameters &rule, std::string_view value) -> const char * {
         const auto delay = parse_whole_number(value, largest_number);
         rule.rule.quota.delay = delay.value_or(0);
         rule.has_delay = true;
         return delay ? nullptr : expected_number;
     }},
    {"cost",
     [](RuleParameters &rule, std::string_view value) -> const char * {
         return set_number_or_variable(value, rule.rule.quota.cost, rule.cost_text);
     }},
    {"final_cost",
     [](RuleParameters &rule, std::string_view value) -> const char * {
         rule.final_cost_text = value;
         const bool is_number = parse_whole_number(value, largest_number).has_value();
         return is_number || has_variable(value) ? nullptr : expected_number;
     }},
    {"window",
     [](RuleParameters &rule, std::string_view value) -> const char * {
         rule.calendar_unit = calendar_unit_named(value);
         if (rule.calendar_unit) {
             return nullptr;
         }
         auto &window = rule.rule.quota.window;
         window = parse_time(value);
         const bool in_range = window >= shortest_window && window <= longest_window;
         return in_range ? nullptr
                         : "a time from 1ms to 366d, such as 60s, or day, week, month, quarter or "
                           "year";
     }},
    {"timezone",
     [](RuleParameters &rule, std::string_view value) -> const char * {
         rule.time_zone = value;
         return is_time_zone_name(value) ? nullptr
                                         : "the name of a time zone, such as Europe/Berlin";
     }},
    {"starts",
     [](RuleParameters &rule, std::string_view value) -> const char * {
         rule.starts = parse_whole_number(value, latest_start);
         return rule.starts.value_or(0) > 0 ? nullptr : "a day of the month from 1 to 28";
     }},
    {"aligned",
     [](RuleParameters &rule, std::string_view) -> const char * {
         rule.rule.aligned = true;
         return nullptr;
     },
     Is::flag},
    {"shards",
     [](RuleParameters &rule, std::string_view value) -> const char * {
         const auto shards = parse_whole_number(value, most_shards);
         rule.rule.shards = shards.value_or(0);
         return rule.rule.shards > 0 ? nullptr : "a whole number from 1 to 64";
     }},
    {"lease",
     [](RuleParameters &rule, std::string_view value) -> const char * {
         LeaseSetting &lease = rule.rule.lease;
         if (value == "off" || value == "auto") {
             lease.kind = value == "off" ? LeaseSetting::Kind::off : LeaseSetting::Kind::automatic;
             return nullptr;
         }
         lease = {.kind = LeaseSetting::Kind::given, .given = parse_time(value)};
         const bool in_range = lease.given >= shortest_lease && lease.given <= longest_lease;
         return in_range ? nullptr : "off, auto or a time from 1ms to 10s";
     }},
    {"block",
     [](RuleParameters &rule, std::string_view value) -> const char * {
         auto &block = rule.rule.block;
         block = parse_time(value);
         const bool in_range = block >= shortest_block && block <= longest_block;
         return in_range ? nullptr : "a time from 1s to 366d, such as 15m";
     }},
    {"phase",
     [](RuleParameters &rule, std::string_view value) -> const char * {
         const bool is_late = value == late_phase_name(rule.place);
         rule.phase = is_late ? Phase::late : Phase::access;
         return is_late || value == "access" ? nullptr : expected_phase(rule.place);
     }},
    {"name",
     [](RuleParameters &rule, std::string_view value) -> const char * {
         return set_name(value, rule.rule.explicit_name);
     }},
    {"dry_run",
     [](RuleParameters &rule, std::string_view) -> const char * {
         rule.dry_run = true;
         return nullptr;
     },
     Is::flag},
};

/// Refuses parameters that the rule's algorithm does not take.
Refusal check_parameters(const RuleParameters &rule) {
    struct Special {
        const char *parameter;
        bool is_given;
        bool (*is_taken_by)(const AlgorithmTraits &traits);
    };
    const Quota &quota = rule.rule.quota;
    const Special specials[] = {
        {"burst", quota.burst || !rule.burst_text.empty(),
         [](const AlgorithmTraits &traits) { return traits.burst != Burst::none; }},
        {"delay", rule.has_delay, [](const AlgorithmTraits &traits) { return traits.takes_delay; }},
        {"aligned", rule.rule.aligned,
         [](const AlgorithmTraits &traits) { return traits.takes_aligned; }},
        {"final_cost", !rule.final_cost_text.empty(),
         [](const AlgorithmTraits &traits) { return !traits.holds_permits; }},
        {"lease", rule.rule.lease.kind != LeaseSetting::Kind::off,
         [](const AlgorithmTraits &traits) { return traits.lease_divisor > 0; }},
    };
    for (const Special &special : specials) {
        if (special.is_given && !special.is_taken_by(traits_of(quota.algorithm))) {
            return refused(std::string("parameter ") + special.parameter + " with algorithm",
                           to_string(quota.algorithm), names_of_algorithms(special.is_taken_by));
        }
    }
    return std::nullopt;
}

/// Returns `window=month`.
std::string window_of(CalendarUnit unit) {
    return "window=" + std::string(to_string(unit));
}

/// Refuses a day of the month beside a window that is none of the calendar, or that begins on
/// others.
Refusal refuse_starts(const RuleParameters &rule) {
    return refused("starts", std::to_string(*rule.starts),
                   "it beside window=" + names_of_calendar_units(may_start_later) + " alone");
}

/// Refuses what goes with the windows of a calendar alone.
Refusal refuse_parts_of_calendar(const RuleParameters &rule) {
    if (rule.time_zone) {
        return refused("timezone", *rule.time_zone,
                       "it beside window=" + names_of_calendar_units() + " alone");
    }
    return rule.starts ? refuse_starts(rule) : std::nullopt;
}

/// Refuses a time zone that this host does not have.
Refusal refuse_time_zone(const std::string &name) {
    if (!has_time_zones()) {
        return refused("timezone", name,
                       "UTC, for this module was built without the library cctz, which reads the "
                       "others");
    }
    const std::string newer = newer_name_of_time_zone(name);
    return refused("timezone", name,
                   newer.empty()
                       ? "a time zone of the system's tz database, such as Europe/Berlin"
                       : newer + ", of which it is an old name that this system does not have");
}

/// Warns of a name that keeps nginx from starting where the tz database has no old names.
void warn_of_old_time_zone(const std::string &name, std::vector<std::string> &warnings) {
    const std::string newer = newer_name_of_time_zone(name);
    if (!newer.empty()) {
        warnings.push_back("timezone \"" + name +
                           "\" is an old name that not every system has (Debian 13 has it in "
                           "tzdata-legacy), expected " +
                           newer + ", with which clients begin a fresh window");
    }
}

/// Gives the rule its calendar, if `window=` names one.
Refusal set_calendar(RuleParameters &rule, std::vector<std::string> &warnings) {
    if (!rule.calendar_unit) {
        return refuse_parts_of_calendar(rule);
    }
    const CalendarUnit unit = *rule.calendar_unit;
    Quota &quota = rule.rule.quota;
    if (!traits_of(quota.algorithm).takes_aligned) {
        return refused("parameter " + window_of(unit) + " with algorithm",
                       to_string(quota.algorithm),
                       names_of_algorithms(
                           [](const AlgorithmTraits &traits) { return traits.takes_aligned; }));
    }
    if (rule.rule.aligned) {
        return refused("parameter", "aligned",
                       "it without " + window_of(unit) + ", which is aligned by itself");
    }
    if (rule.starts && !may_start_later(unit)) {
        return refuse_starts(rule);
    }
    const CalendarName name{.unit = unit,
                            .starts = rule.starts.value_or(1),
                            .time_zone = rule.time_zone.value_or(std::string(utc))};
    auto zone = find_time_zone(name.time_zone);
    if (zone == nullptr) {
        return refuse_time_zone(name.time_zone);
    }
    warn_of_old_time_zone(name.time_zone, warnings);
    rule.rule.calendar = std::make_shared<const Calendar>(name, std::move(zone));
    quota.calendar = rule.rule.calendar.get();
    quota.window = quota.calendar->longest_window();
    return std::nullopt;
}

/// Refuses a window in which the rule's permits cannot be renewed.
Refusal check_window(const Quota &quota) {
    if (!holds_permits(quota.algorithm) || quota.window >= shortest_window_of_permits) {
        return std::nullopt;
    }
    return refused("window", std::to_string(quota.window.count()) + "ms",
                   "at least " + std::to_string(shortest_window_of_permits.count()) + "ms with " +
                       std::string(to_string(quota.algorithm)) +
                       ", so that permits can be renewed within it");
}

/// Refuses a limit or a cost that is more than the algorithm takes.
Refusal refused_for_algorithm(const char *parameter, uint64_t number, uint64_t largest,
                              Algorithm algorithm) {
    return refused(parameter, std::to_string(number),
                   "a whole number from 0 to " + std::to_string(largest) + " with " +
                       std::string(to_string(algorithm)));
}

/// Refuses numbers that the rule's algorithm does not take.
Refusal check_numbers(const Quota &quota) {
    const uint64_t most_of_limit = largest_limit(quota.algorithm);
    if (quota.limit > most_of_limit) {
        return refused_for_algorithm("limit", quota.limit, most_of_limit, quota.algorithm);
    }
    const uint64_t most_of_cost = largest_cost(quota.algorithm);
    if (quota.cost > most_of_cost) {
        return refused_for_algorithm("cost", quota.cost, most_of_cost, quota.algorithm);
    }
    if (quota.refill() > longest_refill) { // possible only with a burst
        return refused("burst", std::to_string(quota.burst.value_or(0)),
                       "a bucket that fills, by limit and window, within 10 years");
    }
    return std::nullopt;
}

/// Whether each shard has at least a unit of the limit, and can grant at once what a request costs.
bool can_be_shared(const Quota &quota, uint64_t shards) {
    return shards_in_use(quota, shards) == shards &&
           (quota.cost > quota.capacity() || quota.cost <= smallest_capacity(quota, shards));
}

/// Refuses more shards than can each grant a request. It cannot check numbers from variables.
Refusal check_shards(const RuleParameters &rule) {
    const Quota &quota = rule.rule.quota;
    if (!rule.limit_text.empty() || !rule.burst_text.empty() || quota.capacity() == 0) {
        return std::nullopt;
    }
    uint64_t most = rule.rule.shards;
    while (!can_be_shared(quota, most)) {
        --most; // this ends at 1 shard, which every rule can have
    }
    if (most == rule.rule.shards) {
        return std::nullopt;
    }
    return refused("shards", std::to_string(rule.rule.shards),
                   "at most " + std::to_string(most) + ", so that each has room for a request");
}

/// Refuses blocks of a rule with shards: the counters of the others are in other hash slots.
Refusal check_block(const RuleParameters &rule) {
    if (rule.rule.block.count() == 0 || rule.rule.shards == 1) {
        return std::nullopt;
    }
    return refused("shards", std::to_string(rule.rule.shards),
                   "1 with block, of which the other shards would not know");
}

/// Refuses leases that the rule can never have. Where a request's variables decide, the request
/// does.
Refusal check_lease(const RuleParameters &rule, std::vector<std::string> &warnings) {
    const Quota &quota = rule.rule.quota;
    const LeaseSetting &lease = rule.rule.lease;
    if (lease.kind == LeaseSetting::Kind::off) {
        return std::nullopt;
    }
    const bool is_given = lease.kind == LeaseSetting::Kind::given;
    const std::string text = is_given ? std::to_string(lease.given.count()) + "ms" : "auto";
    if (rule.rule.shards > 1) {
        return refused("lease", text, "off with shards, of which each request may ask another one");
    }
    if (rule.rule.block.count() > 0) {
        return refused("lease", text,
                       "off with block, for requests that are granted in advance see no block");
    }
    if (rule.burst_text.empty() && traits_of(quota.algorithm).takes_delay &&
        quota.delay < quota.burst.value_or(0)) {
        return refused("lease", text,
                       "off, or a delay of at least the burst, for requests that are held back "
                       "cannot be granted in advance");
    }
    const bool is_variable = !rule.limit_text.empty() || !rule.burst_text.empty();
    if (quota.capacity() == 0 && !is_variable) {
        return std::nullopt;
    }
    const auto most = std::chrono::floor<milliseconds>(longest_lease_time(quota));
    if (is_given && lease.given > most && !(is_variable && is_bucket(quota.algorithm))) {
        const std::string quarter = "a quarter of the time in which the whole capacity comes back";
        return refused("lease", text,
                       most < shortest_lease
                           ? "off, for leases hold for at most " + quarter
                           : "at most " + std::to_string(most.count()) + "ms, " + quarter);
    }
    if (!is_variable && lease_time(quota, lease).count() == 0) {
        warnings.emplace_back("lease \"auto\" leases nothing, expected a capacity of at least 16 "
                              "that comes back in 40 ms or more");
    }
    return std::nullopt;
}

/// Returns the most that the rule can grant at once, whatever a request's variables say.
uint64_t largest_capacity(const RuleParameters &rule) {
    Quota quota = rule.rule.quota;
    if (!rule.limit_text.empty()) {
        quota.limit = largest_limit(quota.algorithm);
    }
    if (!rule.burst_text.empty()) {
        quota.burst = largest_number;
    }
    return quota.capacity();
}

/// Warns of a cost that the rule can never grant. It is not refused, because the documentation says
/// what it does. A rule that denies every request of any cost is meant so, or has another warning.
void warn_of_large_cost(const RuleParameters &rule, std::vector<std::string> &warnings) {
    const Quota &quota = rule.rule.quota;
    const uint64_t most = largest_capacity(rule);
    if (rule.cost_text.empty() && most > 0 && quota.cost > most) {
        warnings.push_back("cost \"" + std::to_string(quota.cost) +
                           "\" is more than the rule can ever grant, and denies every request, "
                           "expected at most " +
                           std::to_string(most) + ", or a larger " +
                           (is_bucket(quota.algorithm) ? "burst" : "limit"));
    }
}

void warn_of_large_delay(const RuleParameters &rule, std::vector<std::string> &warnings) {
    const uint64_t delay = rule.rule.quota.delay;
    const std::string burst = std::to_string(rule.rule.quota.burst.value_or(0));
    if (rule.burst_text.empty() && delay > rule.rule.quota.burst.value_or(0)) {
        warnings.push_back("delay \"" + std::to_string(delay) + "\" is larger than burst \"" +
                           burst + "\", so that no request is held back, expected at most " +
                           burst);
    }
}

/// Warns of shards that are full so often that a client within its limit is denied, too.
void warn_of_small_shards(const RuleParameters &rule, std::vector<std::string> &warnings) {
    const Quota &quota = rule.rule.quota;
    const bool is_variable = !rule.limit_text.empty() || !rule.burst_text.empty();
    const uint64_t cost = std::max<uint64_t>(quota.cost, 1);
    if (rule.rule.shards == 1 || is_variable || quota.capacity() < cost) {
        return;
    }
    const uint64_t requests = smallest_capacity(quota, rule.rule.shards) / cost;
    if (requests < enough_requests_of_a_shard) {
        const uint64_t enough =
            std::max<uint64_t>(quota.capacity() / cost / enough_requests_of_a_shard, 1);
        warnings.push_back("shards \"" + std::to_string(rule.rule.shards) + "\" leave room for " +
                           std::to_string(requests) +
                           " at once in a shard, and deny many requests of clients that keep to "
                           "the limit, expected at most " +
                           std::to_string(enough));
    }
}

/// Warns of a bucket whose size is its burst, and that has no room. It is not refused, because a
/// limit of 0 is not refused either. But it may be a mistake: with gcra burst=0 is the default, and
/// grants requests.
void warn_of_empty_bucket(const Quota &quota, std::vector<std::string> &warnings) {
    const AlgorithmTraits &traits = traits_of(quota.algorithm);
    if (traits.burst == Burst::is_capacity && quota.burst == uint64_t{0} && quota.cost > 0) {
        warnings.push_back("burst \"0\" is the size of a " + std::string(traits.name) +
                           ", and denies every request, expected at least 1");
    }
}

/// Checks what depends on more than one parameter of the rule.
Refusal check_rule(RuleParameters &rule, std::vector<std::string> &warnings) {
    Quota &quota = rule.rule.quota;
    if (Refusal refusal = set_calendar(rule, warnings)) {
        return refusal;
    }
    if (quota.window.count() == 0) {
        if (traits_of(quota.algorithm).needs_window) {
            return refused_missing("window");
        }
        quota.window = std::chrono::seconds{60};
    }
    Refusal refusal = check_parameters(rule);
    if (!refusal) {
        refusal = check_window(quota);
    }
    if (!refusal) {
        refusal = check_numbers(quota);
    }
    if (refusal) {
        return refusal;
    }
    warn_of_empty_bucket(quota, warnings);
    warn_of_large_cost(rule, warnings);
    warn_of_large_delay(rule, warnings);
    refusal = check_shards(rule);
    if (!refusal) {
        warn_of_small_shards(rule, warnings);
        refusal = check_block(rule);
    }
    if (!refusal) {
        refusal = check_lease(rule, warnings);
    }
    if (rule.cost_text.empty()) {
        keep_cost_free(quota, !rule.final_cost_text.empty());
    }
    return refusal;
}

} // namespace

Refusal read_rule(std::span<const std::string_view> words, RuleParameters &rule,
                  std::vector<std::string> &warnings) {
    Refusal refusal = set_parameters<RuleParameters>(rule_parameters, words, rule);
    return refusal ? refusal : check_rule(rule, warnings);
}

Refusal CalendarsOfNames::add(const Rule &rule) {
    if (rule.calendar == nullptr) {
        return std::nullopt;
    }
    const Rule &first = *first_.try_emplace({rule.zone, rule.name()}, &rule).first->second;
    if (first.calendar->name() == rule.calendar->name()) {
        return std::nullopt;
    }
    return refused("name", rule.name(),
                   "window " + first.window_name() + " as its other rules of the zone have, not " +
                       rule.window_name() + ": give one a name=");
}

void decide_other_limits(std::span<RuleParameters *const> rules) {
    struct Numbers {
        const Quota *first;
        bool are_the_same = true;
    };
    std::map<decltype(std::declval<Rule>().counter()), Numbers> counters;
    for (const RuleParameters *one : rules) {
        const Quota &quota = one->rule.quota;
        Numbers &numbers = counters.try_emplace(one->rule.counter(), Numbers{&quota}).first->second;
        numbers.are_the_same = numbers.are_the_same && one->limit_text.empty() &&
                               one->burst_text.empty() && quota.limit == numbers.first->limit &&
                               quota.burst == numbers.first->burst;
    }
    for (RuleParameters *one : rules) {
        one->rule.quota.other_limit = counters.find(one->rule.counter())->second.are_the_same
                                          ? OtherLimit::counts_in_units
                                          : OtherLimit::counts_in_time;
    }
}

} // namespace rate_limit
