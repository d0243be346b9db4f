// What a replay has found, ready to be shown: as a table, as JSON, or as a page.
#pragma once

#include "replay/rules/limit_search.hpp"
#include "replay/rules/replay.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace replay {

struct ReportOfKey {
    std::string key; // readable
    uint64_t rejected = 0;
    // Its requests and how many of them were rejected, by the steps of its rule's series; empty if
    // they are not known.
    std::vector<uint64_t> requests_of_step;
    std::vector<uint64_t> rejected_of_step;
};

struct ReportOfRule {
    std::string name;
    const Rule *rule = nullptr; // the first of that name
    const RuleTally *tally = nullptr;
    std::vector<ReportOfKey> top_rejected; // the ten keys that were rejected most
    std::optional<FoundLimits> limits;     // nothing: the requests cost different numbers of units
};

struct Report {
    uint64_t lines = 0;
    uint64_t skipped = 0;
    uint64_t ambiguous = 0;             // of the skipped lines: they can be read in several ways
    uint64_t without_request = 0;       // lines of connections that sent no valid one
    uint64_t undecided = 0;             // lines that are left out: nginx decided nothing
    uint64_t late = 0;                  // lines that were out of order by more than a minute
    std::vector<std::string> estimates; // why verdicts may not be nginx's own; empty: they are
    int64_t begin_us = 0;               // the first and the last decision
    int64_t end_us = 0;
    std::vector<std::string> notes; // what the user should know of the rules
    std::vector<ReportOfRule> rules;
};

/// Makes the report of a replay that has come to its end: searches the limits, too. Of the numbers
/// of lines it knows nothing.
Report make_report(const RulesFile &file, Replay &replay);

/// Writes a table for a person.
std::string table_of(const Report &report, bool has_colours);
/// Writes the JSON that docs/replay.schema.json describes.
std::string json_of(const Report &report);
/// Writes one HTML file that needs no other.
std::string page_of(const Report &report);

} // namespace replay
