// What may happen next in the protocol.
#pragma once

#include "world.hpp"

#include <string>

namespace protocol {

struct Step {
    enum class Kind : uint8_t {
        pass,        // a tick passes
        grant,       // Redis grants a request
        charge,      // Redis charges a request that another rule denies
        ask,         // a host asks for a lease
        decide,      // Redis leases units
        give_up,     // the host waits no longer
        lose,        // the check is lost with its connection, or its answer is
        receive,     // the answer arrives
        use,         // a host grants a request out of a lease
        take,        // a host takes a unit of a lease for a request that another rule denies
        give_back,   // and gives it back
        drop,        // a unit is lost
        close,       // a host returns what is left of a lease
        arrive,      // a return arrives
        lose_return, // or it does not
        crash,       // a host crashes
        lose_key,    // Redis loses the key
    };
    static constexpr size_t kinds = static_cast<size_t>(Kind::lose_key) + 1;

    Kind kind;
    uint8_t host = 0;
    Units units = 0;
    Time usable_for = 0;
};

/// A line about the step, for people.
std::string to_string(const Step &step);

} // namespace protocol
