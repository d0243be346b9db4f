#include "redis_client/control/cluster_map.hpp"

#include <algorithm>

namespace redis_client {

namespace {

std::optional<uint16_t> number_within(ReplyView reply, long long largest) {
    const auto number = reply.number();
    if (!number || *number < 0 || *number > largest) {
        return std::nullopt;
    }
    return static_cast<uint16_t>(*number);
}

/// From the names and values that Redis 7 gives after a node's id.
std::string_view address_among(ReplyView metadata) {
    for (size_t i = 0; i + 1 < metadata.size(); i += 2) {
        if (metadata[i].text() == "ip") {
            return metadata[i + 1].text().value_or(std::string_view());
        }
    }
    return {};
}

/// `host port id [metadata]`; a host that the node does not know is null, empty or `?`.
std::optional<ClusterMap::Master> read_master(ReplyView node) {
    if (node.size() < 2) {
        return std::nullopt;
    }
    const auto port = number_within(node[1], 65'535);
    const std::string_view host = node[0].text().value_or(std::string_view());
    const std::string_view address = node.size() > 3 ? address_among(node[3]) : std::string_view();
    if (!port || *port == 0 || host.size() > longest_host || address.size() > longest_host) {
        return std::nullopt;
    }
    return ClusterMap::Master{
        .endpoint = {.host = std::string(host == "?" ? std::string_view() : host), .port = *port},
        .address = std::string(address),
        .serves = {}};
}

} // namespace

std::optional<ClusterMap> ClusterMap::read(ReplyView slots) {
    ClusterMap map;
    for (size_t i = 0; i < slots.size(); ++i) {
        if (!map.add(slots[i])) {
            return std::nullopt;
        }
    }
    return map.masters_.empty() ? std::nullopt : std::optional(std::move(map));
}

/// `first last master replica ...`
bool ClusterMap::add(ReplyView range) {
    if (range.size() < 3) {
        return false;
    }
    const auto first = number_within(range[0], hash_slots - 1);
    const auto last = number_within(range[1], hash_slots - 1);
    auto master = read_master(range[2]);
    if (!first || !last || *first > *last || !master) {
        return false;
    }
    auto known = std::ranges::find(masters_, master->endpoint, &Master::endpoint);
    if (known == masters_.end()) {
        if (masters_.size() == most_masters) {
            return false;
        }
        known = masters_.insert(known, std::move(*master));
    }
    for (size_t slot = *first; slot <= *last; ++slot) {
        known->serves.set(slot);
    }
    return true;
}

} // namespace redis_client
