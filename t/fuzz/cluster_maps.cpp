// What nodes of a cluster say of who serves what: the same in whatever pieces it comes, and a map
// leads somewhere.

#include "pieces.hpp"
#include "redis_client/control/cluster_query.hpp"
#include "targets.hpp"
#include "unit/redis_client/control/cluster_slots.hpp"

#include <string>

namespace fuzz {
namespace {

using redis_client::bulk_string;
using redis_client::ClusterMap;
using redis_client::ClusterQuery;
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

/// All that could be seen from outside.
std::string heard(std::string_view bytes, std::string_view piece_sizes, bool has_password) {
    ClusterQuery query("", has_password ? "secret" : "");
    query.connected();
    auto progress = ClusterQuery::Progress::more;
    for (Pieces pieces(bytes, piece_sizes);
         !pieces.empty() && progress == ClusterQuery::Progress::more;) {
        progress = query.received(pieces.take());
    }
    std::string all = std::to_string(static_cast<int>(progress)) + ' ';
    if (progress == ClusterQuery::Progress::answered) {
        require_sound(query.map());
        for (const ClusterMap::Master &master : query.map().masters()) {
            all += master.endpoint.host + ' ' + std::to_string(master.endpoint.port) + ' ' +
                   master.address + ' ' + std::to_string(master.serves.count()) + '\n';
        }
    }
    return all + std::string(query.problem().what) + query.problem().redis_said;
}

} // namespace

void cluster_maps(Input input) {
    const std::string_view piece_sizes = input.text(8);
    const bool has_password = input.flag();
    std::string bytes = input.flag() ? "+OK\r\n" : "";
    bytes += input.flag() ? take_map(input) : std::string();
    bytes += input.rest();
    require_same_in_pieces({piece_sizes, single_bytes}, [&](std::string_view sizes) {
        return heard(bytes, sizes, has_password);
    });
}

} // namespace fuzz
