#include "replay/report/report.hpp"

#include "rate_limit/text/client_network.hpp"
#include "replay/report/readable.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace replay {

namespace {

/// Returns a key as a person can read it: a binary address as text.
std::string readable_key(const limiter::Zone &zone, std::string_view key) {
    constexpr size_t longest = 256;
    std::array<char, INET6_ADDRSTRLEN> address;
    return readable(zone.key_form == limiter::KeyForm::address_bytes
                        ? rate_limit::text_of_address(key, address)
                        : key,
                    longest);
}

/// Whether the rules that are counted as one, this one among them, are alike and without variables,
/// so that one limit can stand for all.
bool are_alike(const RulesFile &file, const Rule &first) {
    return std::ranges::all_of(file.rules, [&](const auto &rule) {
        const rate_limit::Quota &one = rule->quota();
        const rate_limit::Quota &other = first.quota();
        return rule->counted_as != first.counted_as ||
               (rule->rule.same_counter(first.rule) && one.burst == other.burst &&
                one.delay == other.delay && one.cost == other.cost &&
                rule->rule.aligned == first.rule.aligned && !rule->has_variables() &&
                !rule->has_final_cost());
    });
}

/// Whether a larger limit can never reject more: all requests cost the same. A block prolongs each
/// rejection, and shards are chosen by chance.
bool has_searchable_limit(const RulesFile &file, const Rule &rule) {
    return rule.quota().cost > 0 && rule.rule.block.count() == 0 && rule.rule.shards == 1 &&
           are_alike(file, rule);
}

/// Reads from the spool what became of the keys over time.
void find_series(RuleTally &tally, const std::vector<RuleTally::RejectedKey> &top,
                 std::vector<ReportOfKey> &keys) {
    const TimeSeries &series = tally.series();
    std::unordered_map<uint64_t, ReportOfKey *> by_number;
    for (size_t i = 0; i < top.size(); ++i) {
        for (const uint64_t number : top[i].numbers) {
            by_number[number] = &keys[i];
        }
        keys[i].requests_of_step.resize(series.steps().size());
        keys[i].rejected_of_step.resize(series.steps().size());
    }
    if (by_number.empty()) {
        return;
    }
    tally.spool().rewind();
    while (const auto request = tally.spool().next()) {
        const auto found = by_number.find(request->key);
        if (found != by_number.end()) {
            const auto step = static_cast<size_t>(
                (request->time_us / 1'000'000 - series.begin_s()) / series.step_s());
            ++found->second->requests_of_step[step];
            found->second->rejected_of_step[step] += request->is_rejected ? 1 : 0;
        }
    }
}

/// Tells what a replay leaves out.
void add_notes(const Rule &rule, std::vector<std::string> &notes) {
    if (rule.leaves_lease_out) {
        notes.push_back(rule.name + ": leases are left out; with them a client may be denied a "
                                    "little early");
    }
    if (rule.rule.shards > 1) {
        notes.push_back(rule.name + ": shards are chosen by chance, here and by nginx");
    }
}

} // namespace

Report make_report(const RulesFile &file, Replay &replay) {
    Report report;
    report.notes = file.warnings;
    for (const auto &rule : file.rules) {
        if (rule->counted_as < report.rules.size()) {
            continue; // not the first of its name
        }
        RuleTally &tally = *replay.tallies()[rule->counted_as];
        ReportOfRule &of_rule = report.rules.emplace_back();
        const auto same_name = [&](const ReportOfRule &other) { return other.name == rule->name; };
        const bool is_taken = std::ranges::any_of(report.rules, same_name); // by another zone
        of_rule.name = is_taken ? rule->rule.zone + ":" + rule->name : rule->name;
        of_rule.rule = rule.get();
        of_rule.tally = &tally;
        const auto top = tally.top_rejected();
        for (const RuleTally::RejectedKey &key : top) {
            of_rule.top_rejected.push_back({.key = readable_key(*rule->zone, key.key),
                                            .rejected = key.rejected,
                                            .requests_of_step = {},
                                            .rejected_of_step = {}});
        }
        if (!tally.spool().finish()) {
            report.notes.push_back(of_rule.name + ": no limits are given, because its requests "
                                                  "could not be written into TMPDIR");
        } else {
            find_series(tally, top, of_rule.top_rejected);
            if (tally.requests() > 0 && has_searchable_limit(file, *rule)) {
                of_rule.limits = find_limits(rule->quota(), rule->rule.aligned, tally);
            }
        }
        add_notes(*rule, report.notes);
    }
    return report;
}

} // namespace replay
