#include "simulation/redis/cluster_nodes.hpp"

#include "simulation/redis/resp.hpp"
#include "simulation/redis/slot_of_key.hpp"

#include <algorithm>

namespace simulation {

void ClusterNodes::add(const Shard &shard) {
    shards_.push_back(shard);
    for (size_t slot = 0; slot < owners_.size(); ++slot) {
        owners_[slot] = static_cast<uint8_t>(slot * shards_.size() / owners_.size());
    }
    views_.push_back({shard.master, {}, {}});
    views_.push_back({shard.replica, {}, {}});
    for (const View &view : views_) {
        inform(*view.of);
    }
}

ClusterNodes::View &ClusterNodes::view_of(const SimulatedRedis &node) {
    return *std::ranges::find(views_, &node, &View::of);
}

void ClusterNodes::inform(const SimulatedRedis &node) {
    View &view = view_of(node);
    view.owners = owners_;
    view.masters.clear();
    for (const Shard &shard : shards_) {
        view.masters.push_back(shard.master);
    }
}

void ClusterNodes::mislead(const SimulatedRedis &node, uint16_t hash_slot, uint8_t shard) {
    view_of(node).owners[hash_slot] = shard;
}

std::optional<std::string> ClusterNodes::refuse(SimulatedRedis &node, Server::Peer &peer,
                                                Words keys) {
    if (keys.empty()) {
        return std::nullopt;
    }
    const uint16_t slot = slot_of_key(keys.front());
    if (std::ranges::any_of(keys, [&](auto key) { return slot_of_key(key) != slot; })) {
        network_.complaints.push_back("a command has keys of several hash slots");
        return "CROSSSLOT Keys in request don't hash to the same slot";
    }
    const View &view = view_of(node);
    const uint8_t owner = view.owners[slot];
    if (owner == nobody) {
        ++counts_.not_served;
        return "CLUSTERDOWN Hash slot not served";
    }
    const auto is_missing = [&](auto key) { return node.keys().find(key) == nullptr; };
    const auto missing = std::ranges::count_if(keys, is_missing);
    const bool is_missing_some = missing > 0 && missing < std::ssize(keys);
    const auto move = moves.find(slot);
    if (view.masters[owner] == &node) {
        if (move == moves.end() || move->second.from != &node || missing == 0) {
            return std::nullopt;
        }
        if (is_missing_some && !manner_.asks_for_any_missing_key) {
            ++counts_.try_again;
            return "TRYAGAIN Multiple keys request during rehashing of slot";
        }
        ++counts_.asked;
        return redirect("ASK", slot, *move->second.to);
    }
    if (move != moves.end() && move->second.to == &node && peer.has_asked) {
        if (missing == 0 || keys.size() == 1) {
            return std::nullopt;
        }
        ++counts_.try_again;
        return "TRYAGAIN Multiple keys request during rehashing of slot";
    }
    ++counts_.moved;
    judge_redirect(peer, slot, *view.masters[owner]);
    return redirect("MOVED", slot, *view.masters[owner]);
}

/// A worker that was told the truth asks there from then on. Something may be on its way already,
/// and a node may give it an older map.
void ClusterNodes::judge_redirect(Server::Peer &peer, uint16_t hash_slot,
                                  const SimulatedRedis &to) {
    constexpr Time under_way{20'000};
    constexpr uint64_t most = 4;
    const View &view = view_of(to);
    const uint8_t owner = view.owners[hash_slot];
    if (owner == nobody || view.masters[owner] != &to) {
        return; // it would be sent on from there
    }
    auto &[moves, times, last] = peer.redirected[hash_slot];
    if (moves != moved_[hash_slot]) {
        moves = moved_[hash_slot];
        times = 0;
    }
    if (times > 0 && network_.timeline.now() - last < under_way) {
        return;
    }
    last = network_.timeline.now();
    if (++times == most) {
        network_.complaints.push_back("a worker asks again and again where hash slot " +
                                      std::to_string(hash_slot) + " is not");
    }
}

std::string ClusterNodes::redirect(const char *kind, uint16_t hash_slot,
                                   const SimulatedRedis &to) const {
    const std::string &address = to.address();
    return std::string(kind) + " " + std::to_string(hash_slot) + " " +
           (manner_.hides_hosts ? address.substr(address.rfind(':')) : address);
}

std::string ClusterNodes::named(const SimulatedRedis &node) const {
    const std::string &address = node.address();
    const size_t colon = address.rfind(':');
    const std::string host =
        manner_.hides_hosts ? std::string(nil_reply) : bulk_reply(address.substr(0, colon));
    return list_reply(std::array{host, number_reply(std::stoll(address.substr(colon + 1))),
                                 bulk_reply("an identity"), list_reply({})});
}

std::string ClusterNodes::slots(const SimulatedRedis &node) {
    ++network_.questions_for_maps;
    const View &view = view_of(node);
    std::vector<std::string> ranges;
    for (size_t first = 0; first < view.owners.size();) {
        size_t end = first + 1;
        while (end < view.owners.size() && view.owners[end] == view.owners[first]) {
            ++end;
        }
        if (view.owners[first] != nobody) {
            ranges.push_back(list_reply(std::array{number_reply(static_cast<int64_t>(first)),
                                                   number_reply(static_cast<int64_t>(end) - 1),
                                                   named(*view.masters[view.owners[first]])}));
        }
        first = end;
    }
    return list_reply(ranges);
}

} // namespace simulation
