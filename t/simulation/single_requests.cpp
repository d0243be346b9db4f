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
    if (what == ScriptRun::settlement) {
        ++clients_[client_of(redis_key)].settlements;
        return;
    }
    Checks &checks = checks_[std::string(redis_key)];
    ++checks.all;
    checks.has_charged = checks.has_charged || what == ScriptRun::check_that_leaves_key;
}

void SingleRequests::end_with_other_cost(const std::string &client) {
    ++clients_[client].least_settlements;
    ++clients_[client].most_settlements;
}

/// What has cost nothing yet leaves no key, and may be settled all the same.
void SingleRequests::leave(std::string_view redis_key) {
    left_.emplace(redis_key);
    ++clients_[client_of(redis_key)].most_settlements;
}

std::vector<std::string> SingleRequests::judge(bool nothing_fails) const {
    std::vector<std::string> complaints;
    for (const auto &[redis_key, checks] : checks_) {
        if (checks.all > 1) {
            complaints.push_back("Redis was asked twice for one request: " + redis_key);
        }
    }
    std::map<std::string, Client> clients = clients_;
    for (const std::string &redis_key : left_) {
        const auto checks = checks_.find(redis_key);
        const bool is_charged = checks != checks_.end() && checks->second.has_charged;
        clients[client_of(redis_key)].least_settlements += is_charged ? 1 : 0;
    }
    for (const auto &[name, client] : clients) {
        if (client.settlements > client.most_settlements ||
            (nothing_fails && client.settlements < client.least_settlements)) {
            complaints.push_back("Redis was told " + std::to_string(client.settlements) +
                                 " settlements of a request with at least " +
                                 std::to_string(client.least_settlements) + " and at most " +
                                 std::to_string(client.most_settlements) + ": " + name);
        }
    }
    return complaints;
}

} // namespace simulation
