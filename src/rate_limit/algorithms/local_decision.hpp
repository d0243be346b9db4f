// What goes into the decisions and settlements of local.hpp, and what comes out.
#pragma once

#include "rate_limit/rule/verdict.hpp"
#include "rate_limit/tables/shared_table.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace rate_limit {

struct Now {
    std::chrono::microseconds monotonic;
    std::chrono::microseconds unix_time; // says where aligned windows begin, and nothing else
};

struct LocalDecision {
    Verdict verdict;             // assumes that no other rule denies
    std::optional<Record> after; // there is one if the rule grants and takes something
    int64_t receipt = 0;         // what a settlement of that charge refers to
    /// What was known, as this quota has it, for the limit of the bucket has changed. It is to be
    /// kept if nothing is charged, so that from now on units come back at the new pace.
    std::optional<Record> converted{};
};

/// What a request turned out to cost that this host has charged.
struct LocalSettlement {
    int64_t receipt = 0;    // of the charge
    uint64_t to_return = 0; // units that it took too much, or
    uint64_t to_charge = 0; // too little
    // What of these units of a bucket is left out, because it is settled otherwise: microseconds.
    uint64_t left_out = 0;
};

} // namespace rate_limit
