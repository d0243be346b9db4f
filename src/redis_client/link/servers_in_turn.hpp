// Servers that are asked one after another for the same thing, until one answers. Each round begins
// where the last one ended.
#pragma once

#include "redis_client/link/backend_context.hpp"
#include "redis_client/link/resolved_address.hpp"

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

namespace redis_client {

/// Is the address source of the server whose turn it is.
class ServersInTurn final : public AddressSource {
  public:
    /// Begins with a random one of the configured servers, or all workers would ask the same.
    ServersInTurn(AddressSource::Callbacks &callbacks, BackendContext &context);

    /// Sets the servers that may be asked beside the configured ones.
    void set_others(const std::vector<ServerAddress> &others);

    void begin_round() { asked_ = 0; }
    /// Whether each server was asked in this round.
    bool is_round_over() const { return asked_ >= servers_.size(); }

    void locate(std::chrono::milliseconds timeout) override;
    /// It is the next one's turn, if this one was asked.
    void give_up() override;
    bool use_next() override { return false; } // the next server is asked anew

    const Address &address() const override { return current().address(); }
    std::string_view host() const override { return current().host(); }
    std::string_view text() const override { return current().text(); }

  private:
    void add(const ServerAddress &server);
    const ResolvedAddress &current() const { return *servers_[current_]; }

    AddressSource::Callbacks &callbacks_;
    BackendContext &context_;
    std::vector<std::unique_ptr<ResolvedAddress>> servers_; // the configured ones come first
    size_t current_;
    bool is_asked_ = false; // the current one is
    size_t asked_ = 0;      // in this round
};

} // namespace redis_client
