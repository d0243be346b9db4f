#include "replay/rules/rules_file.hpp"

#include "redis_client/script/arguments.hpp"

#include <algorithm>
#include <map>
#include <span>

namespace replay {

namespace {

using rate_limit::Refusal;
using Result = std::optional<Error>;

/// Directives by which nginx may lead a request elsewhere before rules are applied, in a way that a
/// log does not tell.
constexpr std::string_view beyond_us[] = {"if", "rewrite", "merge_slashes"};

class RulesReader {
  public:
    RulesReader(RulesFile &file, const ZoneKeys &zone_keys, Variables &variables)
        : file_(file), zone_keys_(zone_keys), variables_(variables) {}

    Result read(const std::vector<Directive> &directives) {
        for (const Directive &directive : directives) {
            const bool is_stream = directive.name() == "stream";
            if (auto error = is_stream ? refuse_rules_of_stream(directive.block) : std::nullopt) {
                return error;
            }
        }
        if (auto error = find_zones_and_maps(directives)) {
            return error;
        }
        for (const auto &zone : file_.zones) {
            if (auto error = compile_key(*zone)) {
                return error;
            }
        }
        for (const auto &[name, text] : zone_keys_) {
            if (zone_named(name) == nullptr) {
                return "--zone-key: no zone is named \"" + name + "\"";
            }
        }
        if (auto error = read_level(directives, file_.server, nullptr)) {
            return error;
        }
        if (file_.rules.empty()) {
            return "no redis_rate_limit is in the file";
        }
        complete_rules();
        return join_names();
    }

  private:
    static Error at(const Directive &directive, std::string_view what) {
        return directive.place + ": " + std::string(directive.name()) + ": " + std::string(what);
    }

    static std::vector<std::string_view> values_of(const Directive &directive) {
        return {directive.words.begin() + 1, directive.words.end()};
    }

    /// They limit sessions, of which the log of stream tells too little: see
    /// docs/finding-the-right-limit.md.
    static Result refuse_rules_of_stream(const std::vector<Directive> &directives) {
        for (const Directive &directive : directives) {
            const auto values = values_of(directive);
            const bool is_rule =
                directive.name() == "redis_rate_limit" && !values.empty() && values[0] != "off";
            Result error = is_rule ? refuse_rule_of_stream(directive)
                                   : refuse_rules_of_stream(directive.block);
            if (error) {
                return error;
            }
        }
        return std::nullopt;
    }

    static Error refuse_rule_of_stream(const Directive &directive) {
        rate_limit::RuleParameters rule;
        rule.place = rate_limit::Place::stream;
        std::vector<std::string> warnings;
        if (const Refusal refusal = rate_limit::read_rule(values_of(directive), rule, warnings)) {
            return at(directive, *refusal);
        }
        return at(directive, "the rule \"" + rule.rule.name() +
                                 "\" is one of stream, and a log of sessions does not tell what it "
                                 "would have done; expected rules of http alone");
    }

    Zone *zone_named(std::string_view name) const {
        const auto found = std::ranges::find_if(
            file_.zones, [name](const auto &zone) { return zone->name == name; });
        return found != file_.zones.end() ? found->get() : nullptr;
    }

    /// They may stand behind the rules that use them.
    Result find_zones_and_maps(const std::vector<Directive> &directives) {
        for (const Directive &directive : directives) {
            Result error;
            if (directive.name() == "http") {
                error = find_zones_and_maps(directive.block);
            } else if (directive.name() == "map") {
                error = variables_.add_map(directive);
            } else if (directive.name() == "redis_rate_limit_zone") {
                error = read_zone(directive);
            }
            if (error) {
                return error;
            }
        }
        return std::nullopt;
    }

    Result read_zone(const Directive &directive) {
        const auto values = values_of(directive);
        if (values.size() < 2) {
            return at(directive, "expected a key and parameters");
        }
        auto zone = std::make_unique<Zone>();
        if (const Refusal refusal = rate_limit::read_zone(values, *zone)) {
            return at(directive, *refusal);
        }
        if (zone_named(zone->name) != nullptr) {
            return at(directive, *rate_limit::refused("zone", zone->name, "each zone once"));
        }
        const auto given = std::ranges::find(zone_keys_, zone->name, &ZoneKeys::value_type::first);
        key_texts_[zone->name] =
            given != zone_keys_.end()
                ? KeyText{.text = given->second, .place = "--zone-key: "}
                : KeyText{.text = std::string(values.front()), .place = at(directive, "")};
        zone->backend = file_.backend.get();
        // A log tells of no outage, and each request is to be decided by what Redis has counted.
        zone->deny_cache = {};
        zone->has_top_keys = false;
        if (zone->on_error == rate_limit::OnError::local) {
            zone->on_error = rate_limit::OnError::open;
        }
        file_.zones.push_back(std::move(zone));
        return std::nullopt;
    }

    Result compile_key(Zone &zone) {
        const KeyText &key = key_texts_[zone.name];
        zone.set_key(key.text);
        auto compiled = variables_.compile(key.text);
        if (auto *error = std::get_if<Error>(&compiled)) {
            return key.place + *error + ", in the key of zone \"" + zone.name +
                   "\"; --zone-key gives another key";
        }
        zone.key = std::get<CompiledText>(std::move(compiled));
        return std::nullopt;
    }

    /// Reads the rules of a level, and then its locations, which inherit them.
    Result read_level(const std::vector<Directive> &directives, Level &level, const Level *outer) {
        bool has_own_rules = false;
        level.dry_run = outer != nullptr && outer->dry_run;
        if (auto error = read_own(directives, level, has_own_rules)) {
            return error;
        }
        if (!has_own_rules && outer != nullptr) {
            level.rules = outer->rules;
        }
        return read_inner(directives, level);
    }

    Result read_own(const std::vector<Directive> &directives, Level &level, bool &has_own_rules) {
        for (const Directive &directive : directives) {
            const std::string_view name = directive.name();
            if (std::ranges::find(beyond_us, name) != std::end(beyond_us)) {
                return at(directive, "cannot be evaluated from a log; leave it out");
            }
            if (name == "redis_rate_limit") {
                if (auto error = read_rule(directive, level, has_own_rules)) {
                    return error;
                }
            } else if (name == "redis_rate_limit_dry_run") {
                const auto values = values_of(directive);
                level.dry_run = values.size() == 1 && values[0] == "on";
                if (!level.dry_run && (values.size() != 1 || values[0] != "off")) {
                    return at(directive, "expected on or off");
                }
            } else if (name == "return") {
                level.answers_at_once = true;
            }
        }
        return std::nullopt;
    }

    /// `http` and `server` are levels of which there is one, so they are read into the same. So is
    /// a file that has neither.
    Result read_inner(const std::vector<Directive> &directives, Level &level) {
        for (const Directive &directive : directives) {
            const std::string_view name = directive.name();
            Result error;
            if (name == "server" && directive.has_block && has_server_) {
                return at(directive, "of several servers the log does not say which one a request "
                                     "is for; expected one");
            }
            if (name == "http" || (name == "server" && directive.has_block)) {
                has_server_ = has_server_ || name == "server";
                Level inner;
                error = read_level(directive.block, inner, &level);
                std::vector<Level> locations = std::move(level.locations);
                locations.insert(locations.end(), inner.locations.begin(), inner.locations.end());
                level = std::move(inner);
                level.locations = std::move(locations);
            } else if (name == "location") {
                error = read_location(directive, level);
            }
            if (error) {
                return error;
            }
        }
        return std::nullopt;
    }

    /// Returns a location without rules. The modifier may stand right before the path. Returns
    /// nothing for a regular expression.
    static std::optional<Level> read_match(const Directive &directive) {
        const auto values = values_of(directive);
        std::string_view path = values.empty() ? std::string_view() : values.back();
        std::string_view modifier = values.size() == 2 ? values.front() : std::string_view();
        for (const std::string_view known : {"=", "^~"}) {
            if (values.size() == 1 && path.starts_with(known)) {
                modifier = known;
                path.remove_prefix(known.size());
            }
        }
        Level location;
        location.path = path;
        if (modifier == "=") {
            location.match = Level::Match::exact;
        } else if (modifier == "^~") {
            location.match = Level::Match::prefix_alone;
        } else if (values.size() != 1 || path.starts_with('~')) {
            return std::nullopt;
        }
        return location;
    }

    Result read_location(const Directive &directive, Level &outer) {
        auto location = read_match(directive);
        if (!location) {
            return at(directive,
                      "regular expressions are not evaluated, expected a prefix, or = or "
                      "^~ and a path");
        }
        if (location->path.starts_with('@')) {
            return std::nullopt; // only redirects lead there
        }
        const auto is_same = [&](const Level &other) {
            return other.path == location->path &&
                   (other.match == Level::Match::exact) == (location->match == Level::Match::exact);
        };
        if (std::ranges::any_of(outer.locations, is_same)) {
            return at(directive, "duplicate location \"" + location->path + "\"");
        }
        if (auto error = read_level(directive.block, *location, &outer)) {
            return error;
        }
        const bool is_alike = location->rules == outer.rules &&
                              location->dry_run == outer.dry_run && !location->answers_at_once;
        if (!variables_.request_fields().has_path() && !is_alike) {
            return at(directive, "the log has no $request, by which a location is found");
        }
        outer.locations.push_back(std::move(*location));
        return std::nullopt;
    }

    Result read_rule(const Directive &directive, Level &level, bool &has_own_rules) {
        const auto values = values_of(directive);
        const bool is_off = !values.empty() && values[0] == "off";
        const bool was_off = has_own_rules && level.rules.empty();
        if (was_off || (is_off && (has_own_rules || values.size() > 1))) {
            return at(directive, *rate_limit::refused("parameter", values.empty() ? "" : values[0],
                                                      "off alone on a level"));
        }
        if (!has_own_rules) {
            level.rules.clear();
        }
        has_own_rules = true;
        if (is_off) {
            return std::nullopt;
        }
        auto rule = std::make_unique<Rule>();
        std::vector<std::string> warnings;
        Refusal refusal = rate_limit::read_rule(values, *rule, warnings);
        for (const std::string &warning : warnings) {
            file_.warnings.push_back(at(directive, warning));
        }
        if (!refusal) {
            refusal = rate_limit::refuse_beside(level.rules, *rule);
        }
        if (refusal) {
            return at(directive, *refusal);
        }
        rule->zone = zone_named(rule->rule.zone);
        rule->leaves_lease_out = rule->may_lease();
        rule->rule.lease = {}; // it changes when Redis is asked, and hardly what a request gets
        if (rule->zone == nullptr) {
            return at(directive,
                      *rate_limit::refused("zone", rule->rule.zone,
                                           "a zone that a redis_rate_limit_zone defines"));
        }
        if (auto error = compile_numbers(directive, *rule)) {
            return error;
        }
        level.rules.push_back(rule.get());
        file_.rules.push_back(std::move(rule));
        return std::nullopt;
    }

    Result compile_numbers(const Directive &directive, Rule &rule) {
        const std::string *texts[] = {&rule.limit_text, &rule.burst_text, &rule.cost_text,
                                      &rule.final_cost_text}; // in the order of limiter::RuleText
        for (size_t i = 0; i < std::size(texts); ++i) {
            if (texts[i]->empty()) {
                continue;
            }
            auto result = variables_.compile(*texts[i]);
            if (auto *error = std::get_if<Error>(&result)) {
                return at(directive, *error);
            }
            rule.texts[i] = std::get<CompiledText>(std::move(result));
        }
        return std::nullopt;
    }

    /// As in the module, what a bucket makes of another limit depends on all rules of its counter.
    void complete_rules() {
        std::vector<rate_limit::RuleParameters *> rules;
        for (const auto &rule : file_.rules) {
            rules.push_back(rule.get());
        }
        rate_limit::decide_other_limits(rules);
        for (const auto &rule : file_.rules) {
            rule->complete(*rule->zone);
            rule->may_settle = std::ranges::any_of(file_.rules, [&](const auto &other) {
                return other->has_final_cost() && other->rule.same_counter(rule->rule);
            });
        }
    }

    /// As in the module, rules of one zone and name are counted together.
    Result join_names() {
        std::map<std::pair<std::string_view, std::string_view>, Rule *> first_of_name;
        rate_limit::CalendarsOfNames calendars;
        for (const auto &rule : file_.rules) {
            const auto [first, is_new] =
                first_of_name.try_emplace({rule->rule.zone, rule->name}, rule.get());
            rule->first_of_name = first->second;
            if (is_new) {
                zone_named(rule->rule.zone)->named_rules.push_back(rule.get());
            }
            rule->counted_as = is_new ? first_of_name.size() - 1 : first->second->counted_as;
            const auto algorithm = first->second->quota().algorithm;
            if (algorithm != rule->quota().algorithm) {
                return "rules of the name \"" + rule->name + "\" have different algorithms";
            }
            if (auto refusal = calendars.add(rule->rule)) {
                return *refusal;
            }
        }
        std::ranges::for_each(file_.zones, [](const auto &zone) { make_tables(*zone); });
        return std::nullopt;
    }

    static void make_tables(Zone &zone) {
        zone.tables = std::make_unique<Tables>(zone.memory, zone.named_rules.size());
        rate_limit::RuleCounterTable counters = zone.memory.rule_counters();
        counters.begin_generation();
        for (limiter::Rule *rule : zone.named_rules) {
            rule->counters = &counters.claim(rate_limit::hash_of(zone.memory.seed(), rule->name));
        }
    }

    struct KeyText {
        std::string text;
        std::string place;
    };

    RulesFile &file_;
    const ZoneKeys &zone_keys_;
    Variables &variables_;
    std::map<std::string, KeyText, std::less<>> key_texts_;
    bool has_server_ = false;
};

} // namespace

Tables::Tables(limiter::ZoneMemory &memory, size_t rules) {
    constexpr size_t least = size_t{1} << 18;
    const size_t size = std::max(least, limiter::ZoneMemory::size_for(rules));
    lines_.resize(size / sizeof(MemoryLine));
    memory.begin(std::as_writable_bytes(std::span(lines_)), *this, size, {},
                 std::chrono::microseconds{0});
}

const Level &Level::serving(std::string_view path_of_request) const {
    const Level *best = nullptr;
    for (const Level &location : locations) {
        if (location.match == Match::exact) {
            if (location.path == path_of_request) {
                return location;
            }
        } else if (path_of_request.starts_with(location.path) &&
                   (best == nullptr || location.path.size() > best->path.size())) {
            best = &location;
        }
    }
    return best != nullptr ? best->serving(path_of_request) : *this;
}

std::variant<RulesFile, Error> read_rules_file(const std::string &path, const ZoneKeys &zone_keys,
                                               std::string_view prefix, Variables &variables) {
    auto directives = read_config_file(path);
    if (auto *error = std::get_if<Error>(&directives)) {
        return *error;
    }
    RulesFile file;
    file.backend = std::make_unique<redis_client::BackendSettings>(0, "default");
    file.backend->prefix = prefix;
    file.backend_memory.resize(redis_client::BackendMemory::size() / sizeof(MemoryLine) + 1);
    file.backend->memory.lay_out(file.backend_memory.data(), std::chrono::microseconds{0});
    if (auto error = RulesReader(file, zone_keys, variables)
                         .read(std::get<std::vector<Directive>>(directives))) {
        return *error;
    }
    return file;
}

} // namespace replay
