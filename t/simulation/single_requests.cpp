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

std::vector<std::string> SingleRequests::judge(bool nothing_fails) const {
    std::vector<std::string> complaints;
    for (const auto &[redis_key, checks] : checks_) {
        if (checks.all > 1) {
            complaints.push_back("Redis was asked twice for one request: " + redis_key);
        }
    }
    struct Settlements {
        uint64_t least = 0;
        uint64_t most = 0;
    };
    std::map<std::string, Settlements> wanted;
    for (const auto &[name, client] : clients_) {
        wanted[name] = {.least = client.other_costs, .most = client.other_costs};
    }
    for (const std::string &redis_key : left_) {
        const auto checks = checks_.find(redis_key);
        Settlements &of_client = wanted[client_of(redis_key)];
        of_client.least += checks != checks_.end() && checks->second.has_charged ? 1 : 0;
        ++of_client.most; // what has cost nothing yet leaves no key
    }
    for (const auto &[name, settlements] : wanted) {
        const auto client = clients_.find(name);
        const uint64_t told = client != clients_.end() ? client->second.settlements : 0;
        if (told > settlements.most || (nothing_fails && told < settlements.least)) {
            complaints.push_back("Redis was told " + std::to_string(told) +
                                 " settlements of a request with at least " +
                                 std::to_string(settlements.least) + " and at most " +
                                 std::to_string(settlements.most) + ": " + name);
        }
    }
    return complaints;
}

} // namespace simulation
