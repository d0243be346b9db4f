// Why something with a Redis has failed.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

namespace redis_client {

struct Fault {
    std::string_view what;        // static text
    std::string_view detail = {}; // what Redis or a library said of it
    int error = 0;                // the errno of the socket; 0: none
    // The next attempt meets it, too, until somebody changes users or passwords.
    bool is_refusal = false;

    /// Returns what somebody else said of it: empty if nobody did.
    std::string reason() const { return error != 0 ? strerror(error) : std::string(detail); }
};

} // namespace redis_client
