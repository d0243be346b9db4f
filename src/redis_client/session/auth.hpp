// AUTH, by which a client tells a Redis or a Sentinel who it is.
#pragma once

#include "redis_client/wire/resp.hpp"

#include <string_view>

namespace redis_client {

/// Returns false without a password: then nothing is written, and there will be no reply. Without a
/// username AUTH has the password alone.
inline bool write_auth(ByteQueue &out, std::string_view username, std::string_view password) {
    if (password.empty()) {
        return false;
    }
    if (username.empty()) {
        write_command(out, {"AUTH", password});
    } else {
        write_command(out, {"AUTH", username, password});
    }
    return true;
}

/// Returns what may be logged of an error that answers AUTH: its first word. A Redis that does not
/// know AUTH repeats the command, and with it the password.
inline std::string_view refusal_of_auth(std::string_view error) {
    return error.substr(0, error.find(' '));
}

/// Whether a Redis or a Sentinel says by an error that it does not know the user or the password,
/// or that the user may not do this.
inline bool is_refusal(std::string_view error) {
    const std::string_view kind = error.substr(0, error.find(' '));
    return kind == "WRONGPASS" || kind == "NOAUTH" || kind == "NOPERM";
}

} // namespace redis_client
