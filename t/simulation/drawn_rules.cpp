#include "simulation/drawn_rules.hpp"

#include "limiter/configuration.hpp"
#include "rate_limit/rule/leasing.hpp"
#include "simulation/timeline.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace simulation {

namespace {

/// A calendar one of whose windows ends when the timeline begins, and the length of the next one.
struct Calendar {
    std::string_view window;
    std::string_view starts;
    std::chrono::days length;
};

constexpr std::array calendars{
    Calendar{.window = "window=day", .starts = "", .length = std::chrono::days{1}},
    Calendar{.window = "window=month", .starts = "starts=25", .length = std::chrono::days{30}}};

/// The parameters of a rule, as they are drawn one after the other.
struct Draft {
    size_t name = 0;
    std::string algorithm;
    uint64_t limit = 1;
    int64_t window_ms = 1000;
    const Calendar *calendar = nullptr; // it says the windows, if there is one
    bool is_aligned = false;            // where windows are fixed
    std::optional<uint64_t> burst = std::nullopt;
    bool holds_nobody_back = false; // a leaky bucket, which may lease then
    std::string lease = {};
    uint64_t cost = 1;
    bool has_own_costs = false;   // the request says its cost
    bool has_own_numbers = false; // and its limit and burst
    bool settles = false;
    uint64_t block_s = 0;
    uint64_t shards = 1;
    bool is_precontent = false;
    bool is_dry_run = false;

    bool is_concurrency() const { return algorithm == "concurrency"; }
    bool is_bucket() const { return simulation::is_bucket(algorithm); }
    /// In how many milliseconds all units come back.
    int64_t refill_ms() const {
        return burst ? refill_of_bucket(window_ms, limit, *burst) : window_ms;
    }
};

RuleWords words_of(const Draft &draft) {
    RuleWords words{"algorithm=" + draft.algorithm,
                    "limit=" + (draft.has_own_numbers ? "$l" : std::to_string(draft.limit)),
                    draft.calendar != nullptr ? std::string(draft.calendar->window)
                                              : "window=" + std::to_string(draft.window_ms) + "ms",
                    "name=r" + std::to_string(draft.name)};
    if (draft.calendar != nullptr) {
        words.emplace_back("timezone=Africa/Johannesburg");
        if (!draft.calendar->starts.empty()) {
            words.emplace_back(draft.calendar->starts);
        }
    }
    if (draft.is_aligned) {
        words.emplace_back("aligned");
    }
    if (draft.burst) {
        words.push_back("burst=" + (draft.has_own_numbers ? "$b" : std::to_string(*draft.burst)));
    }
    if (draft.burst && draft.holds_nobody_back) {
        words.push_back("delay=" + std::to_string(*draft.burst));
    }
    if (!draft.lease.empty()) {
        words.push_back("lease=" + draft.lease);
    }
    if (draft.has_own_costs) {
        words.emplace_back("cost=$c");
    } else if (draft.cost > 1) {
        words.push_back("cost=" + std::to_string(draft.cost));
    }
    if (draft.settles) {
        words.emplace_back("final_cost=$f");
    }
    if (draft.block_s > 0) {
        words.push_back("block=" + std::to_string(draft.block_s));
    }
    if (draft.shards > 1) {
        words.push_back("shards=" + std::to_string(draft.shards));
    }
    if (draft.is_precontent) {
        words.emplace_back("phase=precontent");
    }
    if (draft.is_dry_run) {
        words.emplace_back("dry_run");
    }
    return words;
}

/// Returns nothing if there are no leases, or if their length is not said.
std::optional<int64_t> lease_us_of(const Draft &draft) {
    const bool is_said = !draft.lease.empty() && draft.lease != "auto";
    return is_said ? std::optional(std::stol(draft.lease) * 1000) : std::nullopt;
}

/// Returns false if no configuration may have such a rule.
bool read(const RuleWords &words, limiter::Rule &rule) {
    std::vector<std::string_view> all{"zone=z"};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<std::string> warnings;
    return !rate_limit::read_rule(all, rule, warnings);
}

/// Returns nothing if no configuration may have such a rule. Numbers that requests say are as
/// those that it may have.
std::optional<DrawnRule> finish(const Draft &draft) {
    DrawnRule drawn{.words = words_of(draft), .audited = {}, .leases_for_us = 0};
    Draft with_numbers = draft;
    with_numbers.has_own_numbers = false;
    limiter::Rule of_words;
    limiter::Rule rule;
    if (!read(drawn.words, of_words) || !read(words_of(with_numbers), rule)) {
        return std::nullopt;
    }
    drawn.leases_for_us = rate_limit::lease_time(rule.rule.quota, rule.rule.lease).count();
    drawn.audited = {.name = "r" + std::to_string(draft.name),
                     .algorithm = draft.algorithm,
                     .limit = draft.limit,
                     .window_us = draft.window_ms * 1000,
                     .is_aligned = draft.is_aligned,
                     .burst = draft.burst,
                     .has_leases = !draft.lease.empty(),
                     .lease_us = lease_us_of(draft),
                     .settles = draft.settles,
                     .has_own_costs = draft.has_own_costs,
                     .has_own_numbers = draft.has_own_numbers,
                     .block_us = static_cast<int64_t>(draft.block_s) * 1'000'000,
                     .shards = draft.shards,
                     .is_precontent = draft.is_precontent,
                     .is_dry_run = draft.is_dry_run};
    if (draft.calendar != nullptr) {
        const Time length = draft.calendar->length;
        drawn.audited.window_us = length.count();
        drawn.audited.window_ends_us = {Timeline::began.count(),
                                        (Timeline::began + length).count()};
    }
    return drawn;
}

uint64_t draw_limit(Chance &chance, Theme theme) {
    static constexpr std::array<uint64_t, 6> edges{127, 128, 129, 511, 512, 513};
    static constexpr std::array<uint64_t, 4> largest{5, 5, 200, 5000};
    switch (theme) {
    case Theme::leases:
        return 50 + chance.below(chance.one_in(2) ? 300 : 3000);
    case Theme::waves:
        return 8 + chance.below(100);
    case Theme::edges:
        return edges[chance.below(edges.size())];
    case Theme::shards:
        return 1 + chance.below(60);
    case Theme::operators:
        return 1 + chance.below(100);
    default:
        return 1 + chance.below(largest[chance.below(largest.size())]);
    }
}

int64_t draw_window(Chance &chance, Theme theme) {
    switch (theme) {
    case Theme::leases:
    case Theme::edges:
        return chance.between(500, 4000);
    case Theme::waves:
        return chance.between(100, 1000);
    case Theme::operators:
        return chance.between(10'000, 60'000);
    default:
        return chance.between(20, 3000);
    }
}

bool is_of_leases(Theme theme) {
    return theme == Theme::leases || theme == Theme::waves;
}

/// None is longer than a quarter of the time in which all units come back. Waves want long ones.
std::string draw_lease(Chance &chance, Theme theme, const Draft &draft) {
    const int64_t quarter_ms = std::max(draft.refill_ms() / 4, int64_t{5});
    const bool is_wave = theme == Theme::waves;
    const int64_t longest_ms = is_wave               ? quarter_ms
                               : is_of_leases(theme) ? std::min(quarter_ms, int64_t{700})
                                                     : 700;
    const int64_t shortest_ms = is_wave ? longest_ms / 2 : 5;
    return chance.one_in(3) ? "auto"
                            : std::to_string(chance.between(shortest_ms, longest_ms)) + "ms";
}

/// A bucket without a burst has a capacity of one, but a token bucket. Less than 16 units are not
/// leased by themselves.
void draw_burst_to_lease_from(Draft &draft, Chance &chance, Theme theme) {
    if (draft.algorithm != "token_bucket" || chance.one_in(2)) {
        draft.burst =
            theme == Theme::waves ? 30 + chance.below(50) : 15 + chance.below(draft.limit);
    }
    draft.holds_nobody_back = draft.algorithm == "leaky_bucket";
}

Draft draw_rule(Chance &chance, Theme theme, size_t number) {
    static constexpr std::array algorithms{"sliding_log",  "fixed_window", "sliding_window",
                                           "token_bucket", "gcra",         "leaky_bucket",
                                           "concurrency"};
    const bool may_be_concurrency = theme == Theme::anything;
    Draft draft{.name = number,
                .algorithm = algorithms[chance.below(may_be_concurrency ? 7 : 6)],
                .limit = draw_limit(chance, theme),
                .window_ms = draw_window(chance, theme)};
    if (theme == Theme::calendars) {
        draft.algorithm = "fixed_window";
        draft.calendar = &calendars[chance.below(calendars.size())];
    }
    draft.is_precontent = chance.one_in(5);
    draft.is_dry_run = chance.one_in(8);
    if (draft.is_concurrency()) {
        draft.window_ms = 60'000;
        return draft;
    }
    Chance of_numbers = Chance(chance).fork(); // changes no other draw
    // Nobody waits for minutes.
    const bool may_hold_back = draft.algorithm == "leaky_bucket" && theme == Theme::operators;
    if (draft.is_bucket() && is_of_leases(theme)) {
        draw_burst_to_lease_from(draft, chance, theme);
    } else if (draft.is_bucket() && !may_hold_back &&
               (theme == Theme::shards || chance.one_in(2))) {
        draft.burst = 1 + chance.below(50);
    }
    Chance of_shards = Chance(chance).fork(); // changes no other draw
    draft.cost = chance.one_in(4) ? 1 + chance.below(3) : 1;
    draft.has_own_costs = chance.one_in(4);
    draft.settles = chance.one_in(3);
    const bool is_mixed = theme == Theme::anything || theme == Theme::calendars;
    if (is_of_leases(theme) || (is_mixed && chance.one_in(4))) {
        draft.lease = draw_lease(chance, theme, draft);
    } else if (theme == Theme::blocks || (is_mixed && chance.one_in(8))) {
        draft.block_s = 1 + chance.below(2);
    } else if (theme == Theme::shards || (theme == Theme::calendars && chance.one_in(8))) {
        const uint64_t shards = 2 + chance.below(5);
        draft.shards = theme == Theme::shards && of_shards.one_in(3) ? 1 : shards;
    } else if (theme == Theme::operators && of_shards.one_in(4)) {
        draft.shards = 2 + of_shards.below(5);
    }
    draft.has_own_numbers = draft.lease.empty() && of_numbers.one_in(5);
    return draft;
}

DrawnRule draw_valid_rule(Chance &chance, const DrawnConfiguration &configuration, size_t number) {
    for (;;) {
        Draft draft = draw_rule(chance, configuration.theme, number);
        draft.is_aligned = draft.algorithm == "fixed_window" &&
                           configuration.fixed_windows == FixedWindows::aligned;
        if (auto rule = finish(draft)) {
            return std::move(*rule);
        }
    }
}

Draft draft_of(const DrawnRule &rule) {
    const AuditedRule &audited = rule.audited;
    Draft draft{.name = std::stoul(audited.name.substr(1)),
                .algorithm = audited.algorithm,
                .limit = audited.limit,
                .window_ms = audited.window_us / 1000,
                .is_aligned = audited.is_aligned,
                .burst = audited.burst,
                .settles = audited.settles,
                .block_s = static_cast<uint64_t>(audited.block_us) / 1'000'000,
                .shards = audited.shards,
                .is_precontent = audited.is_precontent,
                .is_dry_run = audited.is_dry_run};
    for (const std::string &word : rule.words) {
        if (word.starts_with("window=") && !audited.window_ends_us.empty()) {
            draft.calendar = std::ranges::find(calendars, word, &Calendar::window);
        } else if (word.starts_with("lease=")) {
            draft.lease = word.substr(6);
        } else if (word.starts_with("delay=")) {
            draft.holds_nobody_back = true;
        } else if (word == "limit=$l") {
            draft.has_own_numbers = true;
        } else if (word == "cost=$c") {
            draft.has_own_costs = true;
        } else if (word.starts_with("cost=")) {
            draft.cost = std::stoul(word.substr(5));
        }
    }
    return draft;
}

/// Changes one of its numbers. A change of the algorithm gives it another counter.
void change(Draft &draft, Chance &chance, Theme theme) {
    switch (chance.below(6)) {
    case 0:
    case 1:
        draft.limit = chance.one_in(2) ? 1 + draft.limit / 2 : draw_limit(chance, theme);
        break;
    case 2:
        if (draft.is_bucket() && theme != Theme::operators) {
            draft.burst = 1 + chance.below(50);
        }
        break;
    case 3:
        draft.lease = theme != Theme::single_requests && draft.lease.empty() &&
                              !draft.has_own_numbers && !draft.is_concurrency() &&
                              draft.block_s == 0 && draft.shards == 1
                          ? draw_lease(chance, theme, draft)
                          : "";
        break;
    case 4:
        if (draft.calendar != nullptr) {
            draft.calendar = &calendars[chance.below(calendars.size())];
        } else if (!draft.is_concurrency()) {
            draft.window_ms = draw_window(chance, theme);
        }
        break;
    default:
        draft.is_dry_run = !draft.is_dry_run;
    }
}

/// Returns a rule of the same counter, of another cost or limit. Those of a bucket have one limit:
/// what they take is worth the same then.
DrawnRule draw_rival(const DrawnRule &rule, Chance &chance) {
    Draft draft = draft_of(rule);
    draft.cost = 1 + chance.below(4);
    if (!draft.is_bucket()) {
        draft.limit = 1 + chance.below(2 * draft.limit);
    }
    DrawnRule rival = finish(draft).value_or(rule);
    rival.audited.has_rival = true;
    return rival;
}

/// Another location has rules of the same counters, where all that they grant is known.
void draw_rivals(DrawnConfiguration &drawn, Chance &chance) {
    const bool is_simple = std::ranges::all_of(drawn.rules, [](const DrawnRule &rule) {
        const AuditedRule &audited = rule.audited;
        return audited.algorithm != "concurrency" && !audited.has_leases && audited.shards == 1 &&
               audited.block_us == 0;
    });
    if (drawn.theme != Theme::anything || !is_simple || chance.one_in(2)) {
        return;
    }
    for (DrawnRule &rule : drawn.rules) {
        rule.audited.has_rival = true;
        drawn.rivals.push_back(draw_rival(rule, chance));
    }
}

} // namespace

DrawnConfiguration draw_configuration(Chance &chance, FixedWindows fixed_windows) {
    static constexpr std::array themes{Theme::anything,  Theme::anything,  Theme::anything,
                                       Theme::leases,    Theme::waves,     Theme::waves,
                                       Theme::blocks,    Theme::shards,    Theme::edges,
                                       Theme::operators, Theme::operators, Theme::single_requests};
    DrawnConfiguration drawn;
    drawn.theme = themes[chance.below(themes.size())];
    drawn.theme = fixed_windows == FixedWindows::of_calendars ? Theme::calendars : drawn.theme;
    drawn.fixed_windows = fixed_windows;
    static constexpr std::array errors{"on_error=closed", "on_error=open", "on_error=local"};
    static constexpr std::array caches{"deny_cache=off", "deny_cache=1s", "deny_cache=on"};
    drawn.zone = {errors[chance.below(errors.size())], caches[chance.below(caches.size())]};
    drawn.local_percent = static_cast<uint64_t>(chance.between(1, 100));
    drawn.zone.push_back("local_limit=" + std::to_string(drawn.local_percent) + "%");
    const size_t count = is_of_leases(drawn.theme) ? 1 : 1 + chance.below(3);
    while (drawn.rules.size() < count) {
        drawn.rules.push_back(draw_valid_rule(chance, drawn, drawn.rules.size()));
    }
    drawn.has_host_without_leases =
        is_of_leases(drawn.theme) && chance.below(4) < (drawn.theme == Theme::waves ? 3 : 2);
    Chance of_rivals = Chance(chance).fork(); // changes no other draw
    draw_rivals(drawn, of_rivals);
    return drawn;
}

DrawnConfiguration redraw(const DrawnConfiguration &configuration, Chance &chance) {
    DrawnConfiguration drawn{.theme = configuration.theme,
                             .fixed_windows = configuration.fixed_windows,
                             .zone = configuration.zone,
                             .local_percent = configuration.local_percent,
                             .fills_lease_books = configuration.fills_lease_books,
                             .max_pending = configuration.max_pending,
                             .rules = {},
                             .has_host_without_leases = configuration.has_host_without_leases};
    for (const DrawnRule &rule : configuration.rules) {
        if (configuration.rules.size() > 1 && chance.one_in(6)) {
            continue; // it is gone
        }
        Draft draft = draft_of(rule);
        if (chance.one_in(2)) {
            change(draft, chance, drawn.theme);
        }
        drawn.rules.push_back(finish(draft).value_or(rule));
    }
    if (drawn.rules.empty() || (drawn.rules.size() < 4 && chance.one_in(4))) {
        const auto number_of = [](const DrawnRule &rule) {
            return std::stoul(rule.audited.name.substr(1));
        };
        size_t number = 0;
        for (const DrawnRule &rule : configuration.rules) {
            number = std::max(number, number_of(rule) + 1);
        }
        drawn.rules.push_back(draw_valid_rule(chance, drawn, number));
    }
    return drawn;
}

DrawnConfiguration without_leases(DrawnConfiguration configuration) {
    for (DrawnRule &rule : configuration.rules) {
        std::erase_if(rule.words,
                      [](const std::string &word) { return word.starts_with("lease="); });
    }
    return configuration;
}

} // namespace simulation
