// What a session says first on each new connection (AUTH, ROLE, SELECT, SCRIPT LOAD), and what the
// replies to that mean.
#pragma once

#include "redis_client/session/session_group.hpp"
#include "redis_client/wire/resp.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {

/// What the bytes that came mean for the connection of a session.
enum class SessionProgress {
    more,    // all is well
    ready,   // the connection has just become ready
    broken,  // the connection has to be closed, because of the session's problem
    refused, // the same, and the next one will be refused until users or passwords change
};

class Login {
  public:
    /// Of a session of checks, which runs these scripts.
    Login(const SessionSettings &settings, const ScriptLibrary &scripts);
    /// Of a session without scripts. It may have no commands at all.
    explicit Login(const SessionSettings &settings);

    /// Begins with a new connection. Returns the commands in wire form.
    std::string_view begin();

    struct Step {
        enum class Kind {
            more,    // as it should be; other replies are still to come
            done,    // that was the last one
            broken,  // the connection is of no use
            refused, // nor will the next one be, until somebody changes users or passwords
        };
        Kind kind;
        std::string_view what = {};       // is wrong: our words, static text
        std::string_view redis_said = {}; // valid as long as the reply
    };
    /// Takes the type and the text of the next reply; the text of a list is that of its first
    /// element.
    Step take(Reply::Type type, std::string_view text);

    /// Whether the next reply may be a list. Nobody else's may.
    bool expects_list() const;

  private:
    void add(std::string_view name, std::initializer_list<std::string_view> words);
    static Step refuse(std::string_view command, std::string_view redis_said);

    std::vector<std::string_view> names_; // of the commands, in order
    ByteQueue commands_;
    size_t replies_ = 0; // so far
};

} // namespace redis_client
