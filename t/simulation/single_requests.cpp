#include "simulation/single_requests.hpp"

namespace simulation {

namespace {

/// A Redis key has its zone and its client in braces: rl:{zone:client}:...
std::string client_of(std::string_view redis_key) {
    const size_t begin = redis_key.find(':', redis_key.find('{')) + 1;
    return std::string(redis_key.substr(begin, redis_key.find('}') - begin));
}

} // namespace

void SingleRequests::run(ScriptRun what, std::string_view redis_key) {
    if (what == ScriptRun::check) {
        ++checks_[std::string(redis_key)];
    } else {
        ++clients_[client_of(redis_key)].settlements;
    }
}

std::vector<std::string> SingleRequests::judge(bool nothing_fails) const {
    std::vector<std::string> complaints;
    for (const auto &[redis_key, checks] : checks_) {
        if (checks > 1) {
            complaints.push_back("Redis was asked twice for one request: " + redis_key);
        }
    }
    for (const auto &[name, client] : clients_) {
        const uint64_t most = client.other_costs + client.unknown_charges;
        if (client.settlements > most ||
            (nothing_fails && client.settlements < client.other_costs)) {
            complaints.push_back("Redis was told " + std::to_string(client.settlements) +
                                 " settlements of a request with " + std::to_string(most) + ": " +
                                 name);
        }
    }
    return complaints;
}

} // namespace simulation
