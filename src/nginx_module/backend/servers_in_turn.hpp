// Servers that are asked one after another for the same thing, until one answers. Each round begins
// where the last one ended.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/backend/address_source.hpp"
#include "nginx_module/backend/resolved_address.hpp"
#include "nginx_module/conf/configuration.hpp"

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

namespace nginx_module {

class ServersInTurn {
  public:
    /// Begins with a random one of the configured servers, or all workers would ask the same.
    ServersInTurn(AddressSource::Callbacks &callbacks, const BackendConf &conf);

    /// Sets the servers that may be asked beside the configured ones.
    void set_others(const std::vector<ServerAddress> &others);

    void begin_round() { asked_ = 0; }
    /// Whether each server was asked in this round.
    bool is_round_over() const { return asked_ >= servers_.size(); }

    /// Looks up the address of the server whose turn it is. The callbacks hear of it.
    void locate(std::chrono::milliseconds timeout);
    /// It is the next one's turn.
    void turn_to_next();

    const ResolvedAddress &current() const { return *servers_[current_]; }

  private:
    void add(const ServerAddress &server);

    AddressSource::Callbacks &callbacks_;
    const BackendConf &conf_;
    std::vector<std::unique_ptr<ResolvedAddress>> servers_; // the configured ones come first
    size_t current_;
    size_t asked_ = 0; // in this round
};

} // namespace nginx_module
