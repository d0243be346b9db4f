#include "redis_client/link/servers_in_turn.hpp"

#include <algorithm>
#include <utility>

namespace redis_client {

ServersInTurn::ServersInTurn(AddressSource::Callbacks &callbacks, BackendContext &context)
    : callbacks_(callbacks),
      context_(context),
      current_(context.random() % context.settings.servers.size()) {
    for (const ServerAddress &server : context.settings.servers) {
        add(server);
    }
}

void ServersInTurn::add(const ServerAddress &server) {
    servers_.push_back(std::make_unique<ResolvedAddress>(callbacks_, context_.world,
                                                         context_.settings.index, server));
}

void ServersInTurn::set_others(const std::vector<ServerAddress> &others) {
    const auto &configured = context_.settings.servers;
    servers_.resize(configured.size());
    for (const ServerAddress &other : others) {
        const auto is_other = [&](const ServerAddress &server) {
            return server.host == other.host && server.port == other.port;
        };
        if (std::ranges::none_of(configured, is_other)) {
            add(other);
        }
    }
    current_ %= servers_.size();
}

void ServersInTurn::locate(std::chrono::milliseconds timeout) {
    ++asked_;
    is_asked_ = true;
    servers_[current_]->locate(timeout);
}

void ServersInTurn::give_up() {
    if (std::exchange(is_asked_, false)) {
        servers_[current_]->give_up();
        current_ = (current_ + 1) % servers_.size();
    }
}

} // namespace redis_client
