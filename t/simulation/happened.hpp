// What happened in simulations, and how often.
#pragma once

#include "simulation/fault_counts.hpp"

#include <cstdint>
#include <iterator>

namespace simulation {

/// How often something happened while it mattered.
struct Happened : FaultCounts {
    uint64_t requests = 0;
    uint64_t granted = 0;
    uint64_t denied = 0;
    uint64_t without_verdict = 0;
    uint64_t leased = 0;
    uint64_t left = 0; // clients, before their request was decided
    uint64_t killed_workers = 0;
    uint64_t reloads = 0; // a worker leaves, another one comes
    uint64_t stopped_workers = 0;
    uint64_t scarce_memory = 0; // times that there was none
    uint64_t lost_data = 0;
    uint64_t older_data = 0;
    uint64_t forgotten_scripts = 0;
    uint64_t outages = 0;
    uint64_t clocks_back = 0;
    uint64_t clocks_forward = 0;
    uint64_t flushed = 0;
    uint64_t changed_passwords = 0;
    uint64_t moved_addresses = 0;
    uint64_t switched_masters = 0;
    uint64_t lost_masters = 0;
    uint64_t wrong_sentinels = 0;
    uint64_t moved_slots = 0;
    uint64_t disagreements = 0;
    uint64_t returns = 0; // by requests that turned out cheaper
    uint64_t debts = 0;   // by those that did not
    uint64_t denied_by_cache = 0;
    uint64_t blocked = 0; // by Redis
    uint64_t overrides = 0;
    uint64_t lost_orders = 0; // of operators
    uint64_t resets = 0;
    uint64_t looks = 0;
    uint64_t flushed_by_operators = 0;
    uint64_t changed_configurations = 0;
};

/// What of it is shown, and under which words.
struct HappenedRow {
    const char *what;
    uint64_t Happened::*count;
};
inline constexpr HappenedRow happened_rows[] = {
    {"requests", &Happened::requests},
    {"granted by Redis", &Happened::granted},
    {"granted by a lease", &Happened::leased},
    {"rejected", &Happened::denied},
    {"settled for less", &Happened::returns},
    {"settled for as much or more", &Happened::debts},
    {"without a verdict", &Happened::without_verdict},
    {"rejected by the deny cache", &Happened::denied_by_cache},
    {"blocked", &Happened::blocked},
    {"overrides written", &Happened::overrides},
    {"orders of operators that failed", &Happened::lost_orders},
    {"clients reset", &Happened::resets},
    {"clients looked at", &Happened::looks},
    {"FLUSHALL by an operator", &Happened::flushed_by_operators},
    {"reloads with other rules", &Happened::changed_configurations},
    {"clients that left before", &Happened::left},
    {"connections broken while sending", &Happened::broken_while_sending},
    {"connections broken while answering", &Happened::broken_while_answering},
    {"connections refused", &Happened::refused_connections},
    {"connections without an answer", &Happened::silent_connections},
    {"commands that a stall held up", &Happened::stalls},
    {"commands in pieces", &Happened::split_commands},
    {"replies in pieces", &Happened::split_replies},
    {"messages byte by byte", &Happened::single_bytes},
    {"names not found", &Happened::names_not_found},
    {"answered LOADING", &Happened::loading},
    {"answered BUSY", &Happened::busy},
    {"answered MASTERDOWN", &Happened::master_down},
    {"answered READONLY", &Happened::read_only},
    {"answered MISCONF", &Happened::misconf},
    {"answered NOREPLICAS", &Happened::no_replicas},
    {"answered OOM", &Happened::out_of_memory},
    {"answered NOAUTH", &Happened::not_authenticated},
    {"answered WRONGPASS", &Happened::wrong_password},
    {"not permitted to run a script", &Happened::not_permitted},
    {"answered an unknown error", &Happened::unknown_errors},
    {"answered NOSCRIPT", &Happened::no_script},
    {"replies that are none", &Happened::lies},
    {"connections beyond maxclients", &Happened::too_many_clients},
    {"keys of the wrong type", &Happened::wrong_type},
    {"clocks stepped back", &Happened::clocks_back},
    {"clocks stepped forward", &Happened::clocks_forward},
    {"FLUSHALL", &Happened::flushed},
    {"passwords changed", &Happened::changed_passwords},
    {"Redis moved to another address", &Happened::moved_addresses},
    {"questions to a Sentinel that answered an error", &Happened::unable_sentinels},
    {"questions to a Sentinel that knew no master", &Happened::forgetful_sentinels},
    {"masters that live on as replicas", &Happened::switched_masters},
    {"masters that died and came back", &Happened::lost_masters},
    {"Sentinels that took another one for the master", &Happened::wrong_sentinels},
    {"answered MOVED", &Happened::moved},
    {"answered ASK", &Happened::asked},
    {"answered TRYAGAIN", &Happened::try_again},
    {"answered CROSSSLOT", &Happened::cross_slot},
    {"answered that nobody serves the hash slot", &Happened::not_served},
    {"answered CLUSTERDOWN", &Happened::cluster_down},
    {"hash slots that moved", &Happened::moved_slots},
    {"nodes that disagreed", &Happened::disagreements},
    {"outages without loss of data", &Happened::outages},
    {"outages with loss of data", &Happened::lost_data},
    {"outages with loss of the newest data", &Happened::older_data},
    {"SCRIPT FLUSH", &Happened::forgotten_scripts},
    {"workers killed", &Happened::killed_workers},
    {"workers stopped", &Happened::stopped_workers},
    {"memory ran out", &Happened::scarce_memory},
    {"workers that left", &Happened::reloads},
};
static_assert(std::size(happened_rows) * sizeof(uint64_t) == sizeof(Happened));

} // namespace simulation
