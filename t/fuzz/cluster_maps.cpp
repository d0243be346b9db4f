// What nodes of a cluster say of who serves what: the same in whatever pieces it comes, and a map
// leads somewhere.

#include "pieces.hpp"
#include "redis_client/control/cluster_map.hpp"
#include "redis_client/control/control_session.hpp"
#include "targets.hpp"
#include "unit/redis_client/control/cluster_slots.hpp"

#include <string>

namespace fuzz {
namespace {

using redis_client::bulk_string;
using redis_client::ClusterMap;
using redis_client::list;
using redis_client::number;

std::string take_node(Input &input) {
    constexpr std::string_view hosts[] = {"10.0.0.1", "::1", "redis.test", "", "?"};
    constexpr long long ports[] = {6379, 6380, 65535, 0, 65536, -1};
    std::string host = input.flag() ? bulk_string(input.one_of(hosts)) : "$-1\r\n";
    if (input.number(0, 15) == 15) {
        host = bulk_string(std::string(input.number(0, 300), 'h'));
    }
    const std::string metadata =
        input.flag() ? list({bulk_string("ip"), bulk_string(input.text(20))}) : list({});
    return list({host, number(input.one_of(ports)), bulk_string("id"), metadata});
}

std::string take_map(Input &input) {
    std::vector<std::string> ranges;
    for (uint64_t count = input.number(0, 20); count > 0; --count) {
        const auto first = static_cast<long long>(input.number(0, 16'500));
        const auto last = first + static_cast<long long>(input.number(0, 255));
        std::vector<std::string> range = {number(first), number(last)};
        for (uint64_t its_nodes = input.number(0, 2); its_nodes > 0; --its_nodes) {
            range.push_back(take_node(input));
        }
        ranges.push_back(list(range));
    }
    return list(ranges);
}

void require_sound(const ClusterMap &map) {
    redis_client::HashSlotSet served;
    for (const ClusterMap::Master &master : map.masters()) {
        require(master.endpoint.port > 0 && master.serves.any(),
                "a master is somewhere, and serves");
        require(master.endpoint.host.size() <= redis_client::longest_host &&
                    master.address.size() <= redis_client::longest_host,
                "no name is longer than names are");
        served |= master.serves;
    }
    require(served.any(), "a map leads somewhere");
}

/// Asks for the map, and keeps what could be seen of the answer from outside.
struct MapCommand final : redis_client::ControlCommand {
    bool write(redis_client::ByteQueue &out) const override {
        return redis_client::write_command(out, {"CLUSTER", "SLOTS"});
    }
    void on_reply(redis_client::ReplyView reply) override {
        is_answered = true;
        if (reply.is_error()) {
            said = *reply.text();
        } else if (const auto map = ClusterMap::read(reply)) {
            require_sound(*map);
            for (const ClusterMap::Master &master : map->masters()) {
                said += master.endpoint.host + ' ' + std::to_string(master.endpoint.port) + ' ' +
                        master.address + ' ' + std::to_string(master.serves.count()) + '\n';
            }
        }
    }
    void on_failure(bool /*was_sent*/, const redis_client::Fault & /*fault*/) override {}

    bool is_answered = false;
    std::string said;
};

std::string heard_of_map(std::string_view bytes, std::string_view piece_sizes, bool has_password) {
    redis_client::SessionSettings settings;
    settings.password = has_password ? "secret" : "";
    redis_client::ControlSession session(settings, nullptr, size_t{16} << 20);
    MapCommand command;
    session.run(command);
    session.connected();
    bool is_broken = false;
    for (Pieces pieces(bytes, piece_sizes);
         !pieces.empty() && !command.is_answered && !is_broken;) {
        const auto progress = session.received(pieces.take());
        is_broken = progress == redis_client::SessionProgress::broken ||
                    progress == redis_client::SessionProgress::refused;
    }
    return command.is_answered
               ? command.said
               : std::string(session.problem().what) + ' ' + std::string(session.problem().detail);
}

} // namespace

void cluster_maps(Input input) {
    const std::string_view piece_sizes = input.text(8);
    const bool has_password = input.flag();
    std::string bytes = input.flag() ? "+OK\r\n" : "";
    bytes += input.flag() ? take_map(input) : std::string();
    bytes += input.rest();
    require_same_in_pieces({piece_sizes, single_bytes}, [&](std::string_view sizes) {
        return heard_of_map(bytes, sizes, has_password);
    });
}

} // namespace fuzz
