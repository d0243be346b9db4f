#include "simulation/redis/cluster.hpp"

#include "simulation/redis/slot_of_key.hpp"
#include "simulation/simulation.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

namespace {

/// What stands in the braces of all keys of live limits.
constexpr std::string_view live_limits = "{live}";

} // namespace

SimulatedCluster::SimulatedCluster(Simulation &simulation)
    : Topology(simulation),
      faults_(simulation, *this),
      nodes_(simulation.network, {.asks_for_any_missing_key = simulation.chance.one_in(2),
                                  .hides_hosts = simulation.chance.one_in(3)}) {
    access_.database = 0;
    simulation.auditor.let_permits_return_within(250'000);
    Chance &chance = simulation.chance;
    const Time ahead = draw_ahead();
    // Where nothing goes wrong, their clocks are one.
    const int64_t most_apart_us = simulation.has_faults ? 1000 << chance.below(16) : 0;
    const auto add = [&](size_t port) -> SimulatedRedis * {
        SimulatedRedis &node =
            add_redis("10.0.0.1:" + std::to_string(port),
                      ahead + Time{chance.between(-most_apart_us, most_apart_us)});
        node.set_cluster(&nodes_);
        node.remember_writes();
        return &node;
    };
    const size_t shards = 2 + chance.below(3);
    for (size_t i = 0; i < shards; ++i) {
        SimulatedRedis *master = add(7000 + i);
        nodes_.add({master, add(7100 + i)});
    }
    if (!simulation.has_faults && chance.one_in(2)) {
        keep_moving();
    }
}

void SimulatedCluster::configure(redis_client::BackendSettings &settings) const {
    configure_access(settings);
    settings.mode = redis_client::Mode::cluster;
    for (size_t i = 0; i < 3; ++i) {
        settings.servers.push_back(server_at(redis_[i]->address()));
    }
}

void SimulatedCluster::later(int64_t at_most_us, std::function<void()> what) {
    simulation_.timeline.add(simulation_.timeline.now() +
                                 Time{simulation_.chance.between(0, at_most_us)},
                             std::move(what));
}

void SimulatedCluster::go_wrong() {
    switch (simulation_.chance.below(12)) {
    case 0:
        lose_master();
        break;
    case 1:
        switch_master();
        break;
    case 2:
        disagree();
        break;
    case 3:
        leave_unserved();
        break;
    case 4:
        be_down();
        break;
    case 5:
    case 6:
    case 7:
    case 8:
        begin_move();
        break;
    default:
        faults_.happen(draw_redis());
    }
}

void SimulatedCluster::recover() {
    Topology::recover();
    is_over_ = true;
}

/// Hash slots move also where nothing goes wrong.
void SimulatedCluster::keep_moving() {
    later(300'000, [this] {
        if (!is_over_) {
            begin_move();
            keep_moving();
        }
    });
}

/// Returns one that has keys, if there are keys.
uint16_t SimulatedCluster::draw_hash_slot() {
    std::vector<std::string> names;
    for (const auto &node : redis_) {
        const auto of_node = node->keys().names();
        names.insert(names.end(), of_node.begin(), of_node.end());
    }
    return names.empty() ? static_cast<uint16_t>(simulation_.chance.below(redis_client::hash_slots))
                         : slot_of_key(names[simulation_.chance.below(names.size())]);
}

uint8_t SimulatedCluster::shard_of(uint16_t hash_slot) {
    const auto &shards = nodes_.shards();
    const auto shard =
        std::ranges::find(shards, &nodes_.master_of(hash_slot), &ClusterNodes::Shard::master);
    return static_cast<uint8_t>(shard - shards.begin());
}

uint8_t SimulatedCluster::draw_shard_but(uint8_t shard) {
    const size_t others = nodes_.shards().size() - 1;
    const auto drawn = static_cast<uint8_t>(simulation_.chance.below(others));
    return static_cast<uint8_t>(drawn < shard ? drawn : drawn + 1);
}

void SimulatedCluster::begin_move() {
    const uint16_t slot = draw_hash_slot();
    const uint8_t to_shard = draw_shard_but(shard_of(slot));
    SimulatedRedis &from = nodes_.master_of(slot);
    SimulatedRedis &to = *nodes_.shards()[to_shard].master;
    if (nodes_.moves.contains(slot) || from.is_down || to.is_down) {
        return;
    }
    simulation_.write("hash slot " + std::to_string(slot) + " moves from " + from.address() +
                      " to " + to.address());
    simulation_.hit(&Happened::moved_slots);
    const Time now = simulation_.timeline.now();
    // What a key holds are times of the clock of the node that it comes from.
    const size_t history = to.ahead() > from.ahead()
                               ? simulation_.auditor.begin_history_elsewhere(now.count())
                               : from.histories().at(slot, now);
    to.histories().set(slot, now, history);
    note_step_back(from.ahead() - to.ahead());
    nodes_.moves[slot] = {&from, &to};
    doubt_expiry_of_overrides(slot, from, to);
    move_keys(slot, to_shard);
}

/// The node that took an override computed its end by its own clock.
void SimulatedCluster::doubt_expiry_of_overrides(uint16_t hash_slot, const SimulatedRedis &one,
                                                 const SimulatedRedis &other) {
    if (hash_slot == slot_of_key(live_limits) && one.ahead() != other.ahead()) {
        doubt_overrides_of(one);
    }
}

/// Moves the keys one by one. Then the nodes hear of it: that which has them now first. Meanwhile a
/// host may be told to try again when it asks for changes of live limits, which it does later.
void SimulatedCluster::move_keys(uint16_t hash_slot, uint8_t to) {
    constexpr Time longest_between_keys{10'000};
    if (hash_slot == slot_of_key(live_limits)) {
        simulation_.disturb(longest_between_keys);
    }
    later(longest_between_keys.count(), [this, hash_slot, to] {
        const auto [from_node, to_node] = nodes_.moves[hash_slot];
        if (from_node->is_down || to_node->is_down) {
            move_keys(hash_slot, to);
            return;
        }
        std::vector<std::string> names = from_node->keys().names();
        std::erase_if(names, [&](const auto &name) { return slot_of_key(name) != hash_slot; });
        if (!names.empty()) {
            (void)to_node->keys(); // its clock is as late as that of the other one
            const std::string &name = names[simulation_.chance.below(names.size())];
            if (to_node->ahead() < from_node->ahead()) {
                excuse_life(name);
            }
            from_node->keys().move_to(to_node->keys(), name);
            from_node->remember_writes();
            to_node->remember_writes();
            move_keys(hash_slot, to);
            return;
        }
        simulation_.write("hash slot " + std::to_string(hash_slot) + " has moved");
        // Also of what was set meanwhile.
        doubt_expiry_of_overrides(hash_slot, *from_node, *to_node);
        nodes_.moves.erase(hash_slot);
        nodes_.give(hash_slot, to);
        nodes_.inform(*to_node);
        nodes_.inform(*from_node);
        inform_all_later();
    });
}

void SimulatedCluster::inform_all_later() {
    for (const auto &node : redis_) {
        later(500'000, [this, &node = *node] {
            if (!node.is_down) {
                nodes_.inform(node);
            }
        });
    }
}

void SimulatedCluster::promote_replica(uint8_t shard, Time known_up_to) {
    ClusterNodes::Shard &changed = nodes_.shards()[shard];
    simulation_.write(changed.replica->address() + " takes the place of " +
                      changed.master->address());
    copy_data(*changed.master, known_up_to, *changed.replica);
    std::swap(changed.master, changed.replica);
    nodes_.inform(*changed.master);
    inform_all_later();
}

/// Draws a shard. Returns nothing if one of its two nodes is down, or a hash slot of it is moving.
std::optional<uint8_t> SimulatedCluster::draw_settled_shard() {
    const auto shard = static_cast<uint8_t>(simulation_.chance.below(nodes_.shards().size()));
    const ClusterNodes::Shard &nodes = nodes_.shards()[shard];
    const bool is_moving = std::ranges::any_of(nodes_.moves, [&](const auto &move) {
        return move.second.from == nodes.master || move.second.to == nodes.master;
    });
    const bool is_settled = !is_moving && !nodes.master->is_down && !nodes.replica->is_down;
    return is_settled ? std::optional(shard) : std::nullopt;
}

/// The master is down until its replica has taken its place, and knows that only a moment after it
/// is there again.
void SimulatedCluster::lose_master() {
    const auto shard = draw_settled_shard();
    if (!shard) {
        return;
    }
    SimulatedRedis &old = *nodes_.shards()[*shard].master;
    simulation_.write(old.address() + " is down");
    simulation_.hit(&Happened::lost_masters);
    old.is_down = true;
    simulation_.network.cut(old);
    const Time known = draw_known_up_to();
    later(1'500'000, [this, shard = *shard, &old, known] {
        promote_replica(shard, known);
        later(500'000, [this, &old] {
            simulation_.write(old.address() + " is there again");
            old.is_down = false;
            later(300'000, [this, &old] { nodes_.inform(old); });
        });
    });
}

/// As CLUSTER FAILOVER does: nothing is lost.
void SimulatedCluster::switch_master() {
    const auto shard = draw_settled_shard();
    if (!shard) {
        return;
    }
    SimulatedRedis &old = *nodes_.shards()[*shard].master;
    simulation_.hit(&Happened::switched_masters);
    promote_replica(*shard, simulation_.timeline.now());
    nodes_.inform(old);
}

/// Two nodes take each other for the one that serves a hash slot.
void SimulatedCluster::disagree() {
    const uint16_t slot = draw_hash_slot();
    const uint8_t owner = shard_of(slot);
    const uint8_t other = draw_shard_but(owner);
    simulation_.write("two nodes disagree about hash slot " + std::to_string(slot));
    simulation_.hit(&Happened::disagreements);
    SimulatedRedis &one = *nodes_.shards()[owner].master;
    SimulatedRedis &two = *nodes_.shards()[other].master;
    nodes_.mislead(one, slot, other);
    nodes_.mislead(two, slot, owner);
    doubt_expiry_of_overrides(slot, one, two); // hosts may ask the other one for the time
    later(500'000, [this, slot, &one, &two] {
        doubt_expiry_of_overrides(slot, one, two);
        nodes_.inform(one);
        nodes_.inform(two);
    });
}

void SimulatedCluster::leave_unserved() {
    const uint16_t slot = draw_hash_slot();
    simulation_.write("nobody serves hash slot " + std::to_string(slot));
    for (const auto &node : redis_) {
        nodes_.mislead(*node, slot, ClusterNodes::nobody);
    }
    later(500'000, [this] {
        for (const auto &node : redis_) {
            nodes_.inform(*node);
        }
    });
}

void SimulatedCluster::be_down() {
    const bool is_down = simulation_.chance.one_in(2);
    simulation_.write(is_down ? "the cluster is down" : "keys have other hash slots");
    for (const auto &node : redis_) {
        node->set_mood(is_down ? SimulatedRedis::Mood::cluster_down
                               : SimulatedRedis::Mood::cross_slot);
    }
    later(500'000, [this] {
        for (const auto &node : redis_) {
            node->set_mood(SimulatedRedis::Mood::well);
        }
    });
}

const SimulatedRedis &SimulatedCluster::redis_of(uint16_t hash_slot) const {
    const auto move = nodes_.moves.find(hash_slot);
    return move != nodes_.moves.end() ? *move->second.to : nodes_.master_of(hash_slot);
}

bool SimulatedCluster::may_have_overrides(const Server &server) const {
    const uint16_t slot = slot_of_key(live_limits);
    const auto move = nodes_.moves.find(slot);
    return &server == &nodes_.master_of(slot) ||
           (move != nodes_.moves.end() && &server == move->second.to);
}

/// Keys that are missing where they come from are made anew where they go to.
void SimulatedCluster::on_data_changed(SimulatedRedis &redis, std::optional<uint16_t> hash_slot) {
    const Time now = simulation_.timeline.now();
    for (const auto &[slot, move] : nodes_.moves) {
        const bool is_of_slot = hash_slot.value_or(slot) == slot;
        if (is_of_slot && (move.from == &redis || move.to == &redis)) {
            move.to->histories().set(slot, now, begin_history());
        }
    }
}

} // namespace simulation
