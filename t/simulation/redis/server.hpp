// What listens at an address of the simulated network: a Redis, or a Sentinel.
#pragma once

#include "simulation/timeline.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace simulation {

class Server {
  public:
    /// One client's connection, as the server sees it.
    struct Peer {
        std::string unread; // bytes of a command that is not there as a whole
        bool has_password = false;
        bool has_asked = false; // ASKING came just before
        bool is_subscribed = false;
        bool was_told_of_replica = false; // that the server is one
        bool was_lied_to = false;         // a reply was none: the server says nothing more
        uint64_t database = 0;
        /// How often it was told that a hash slot is somewhere else, and when last, since the slot
        /// has moved for so many times.
        struct Redirected {
            uint64_t moves = 0;
            uint64_t times = 0;
            Time last{0};
        };
        std::map<uint16_t, Redirected> redirected{};
    };

    explicit Server(std::string address) : address_(std::move(address)) {}
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;
    virtual ~Server() = default;

    const std::string &address() const { return address_; }
    void set_address(std::string address) { address_ = std::move(address); }

    /// Takes what a client has sent, and returns the replies to the commands that are there now.
    virtual std::string take(Peer &peer, std::string_view bytes) = 0;

    /// Returns the error by which it has refused all writes since then; empty if it has not.
    virtual std::string_view refusal_of_writes(Time /*since*/) const { return {}; }
    /// Whether somebody else has written a value of another type to the key, and it was there all
    /// the time since then.
    virtual bool has_spoilt(std::string_view /*key*/, Time /*since*/) const { return false; }

    Time stalled_until{0}; // it reads nothing before
    /// It stands still until then, if it does not for longer already.
    void stall_until(Time when) { stalled_until = std::max(stalled_until, when); }
    Time full_until{0};   // it takes no client before
    bool is_down = false; // nobody listens at its address

  private:
    std::string address_;
};

} // namespace simulation
