#include "nginx_module/backend/servers_in_turn.hpp"

#include <algorithm>

namespace nginx_module {

ServersInTurn::ServersInTurn(AddressSource::Callbacks &callbacks, const BackendConf &conf)
    : callbacks_(callbacks),
      conf_(conf),
      current_(static_cast<size_t>(ngx_random()) % conf.servers.size()) {
    for (const ServerAddress &server : conf.servers) {
        add(server);
    }
}

void ServersInTurn::add(const ServerAddress &server) {
    servers_.push_back(std::make_unique<ResolvedAddress>(callbacks_, conf_.resolver, server));
}

void ServersInTurn::set_others(const std::vector<ServerAddress> &others) {
    servers_.resize(conf_.servers.size());
    for (const ServerAddress &other : others) {
        const auto is_other = [&](const ServerAddress &server) {
            return server.host == other.host && server.port == other.port;
        };
        if (std::ranges::none_of(conf_.servers, is_other)) {
            add(other);
        }
    }
    current_ %= servers_.size();
}

void ServersInTurn::locate(std::chrono::milliseconds timeout) {
    ++asked_;
    servers_[current_]->locate(timeout);
}

void ServersInTurn::turn_to_next() {
    servers_[current_]->give_up();
    current_ = (current_ + 1) % servers_.size();
}

} // namespace nginx_module
