// How often each fault hit something that was on its way.
#pragma once

#include <cstdint>

namespace simulation {

struct FaultCounts {
    uint64_t broken_while_sending = 0;
    uint64_t broken_while_answering = 0;
    uint64_t refused_connections = 0;
    uint64_t silent_connections = 0;
    uint64_t stalls = 0;
    uint64_t split_commands = 0;
    uint64_t split_replies = 0;
    uint64_t names_not_found = 0;
    uint64_t single_bytes = 0; // messages of which each byte comes alone

    // Commands that a Redis answered so:
    uint64_t loading = 0;
    uint64_t busy = 0;
    uint64_t master_down = 0;
    uint64_t read_only = 0;
    uint64_t misconf = 0;
    uint64_t no_replicas = 0;
    uint64_t out_of_memory = 0;
    uint64_t not_authenticated = 0;
    uint64_t wrong_password = 0;
    uint64_t not_permitted = 0;
    uint64_t unknown_errors = 0;
    uint64_t no_script = 0;
    uint64_t lies = 0; // a reply that is none
    uint64_t too_many_clients = 0;
    uint64_t wrong_type = 0;
    uint64_t moved = 0;
    uint64_t asked = 0;
    uint64_t try_again = 0;
    uint64_t cross_slot = 0;
    uint64_t not_served = 0;
    uint64_t cluster_down = 0;

    // Questions that a Sentinel answered so:
    uint64_t unable_sentinels = 0;
    uint64_t forgetful_sentinels = 0;
};

} // namespace simulation
