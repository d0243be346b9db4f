#include "simulation/redis/simulated_sentinel.hpp"

#include "simulation/redis/resp.hpp"

#include <array>

namespace simulation {

namespace {

constexpr std::string_view channel = "+switch-master";

struct HostAndPort {
    std::string host;
    std::string port;
};

HostAndPort parts_of(const std::string &address) {
    const size_t colon = address.rfind(':');
    return {address.substr(0, colon), address.substr(colon + 1)};
}

} // namespace

std::string SimulatedSentinel::take(Peer &peer, std::string_view bytes) {
    peer.unread += bytes;
    std::string replies;
    std::string_view rest = peer.unread;
    while (const auto words = take_command(rest)) {
        replies += reply(peer, *words);
    }
    peer.unread.erase(0, peer.unread.size() - rest.size());
    return replies;
}

std::string SimulatedSentinel::reply(Peer &peer, std::span<const std::string_view> words) {
    if (words[0] == "AUTH") {
        const std::string_view username = words.size() == 3 ? words[1] : std::string_view();
        peer.has_password = words.back() == access_.password && username == access_.username;
        return peer.has_password
                   ? status_reply("OK")
                   : error_reply("WRONGPASS invalid username-password pair or user is disabled.");
    }
    if (!access_.password.empty() && !peer.has_password) {
        return error_reply("NOAUTH Authentication required.");
    }
    if (is_unable_) {
        ++counts_.unable_sentinels;
        return error_reply("ERR something that nobody has heard of");
    }
    if (words[0] == "SUBSCRIBE" && words.size() == 2) {
        peer.is_subscribed = true;
        return list_reply(
            std::array{bulk_reply("subscribe"), bulk_reply(words[1]), number_reply(1)});
    }
    if (words.size() == 3 && words[0] == "SENTINEL" && words[1] == "GET-MASTER-ADDR-BY-NAME") {
        if (is_forgetful_ || words[2] != master_name) {
            ++counts_.forgetful_sentinels;
            return std::string(nil_list_reply);
        }
        const auto [host, port] = parts_of(master_);
        return list_reply(std::array{bulk_reply(host), bulk_reply(port)});
    }
    return error_reply("ERR unknown command");
}

std::string SimulatedSentinel::hear(const std::string &master) {
    const auto [old_host, old_port] = parts_of(master_);
    const auto [host, port] = parts_of(master);
    master_ = master;
    const std::string news =
        std::string(master_name) + " " + old_host + " " + old_port + " " + host + " " + port;
    const auto message = [](std::string_view text) {
        return list_reply(std::array{bulk_reply("message"), bulk_reply(channel), bulk_reply(text)});
    };
    // It watches another master, too.
    return message("another 10.3.0.1 6379 10.3.0.2 6379") + message(news);
}

} // namespace simulation
