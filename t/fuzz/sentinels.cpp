// What a Sentinel says, and replies of any shape: the same in whatever pieces they come, and a
// master is told with a host and a port.

#include "pieces.hpp"
#include "redis_client/control/sentinel.hpp"
#include "redis_client/wire/reply_tree.hpp"
#include "targets.hpp"

#include <string>

namespace fuzz {
namespace {

using redis_client::ReplyTreeReader;
using redis_client::ReplyView;
using redis_client::Sentinel;

constexpr size_t longest_reply = 1024;

void describe(ReplyView reply, std::string &described) {
    described += reply.is_error() ? "error " : "";
    if (const auto text = reply.text()) {
        described += std::string(*text) + '\n';
    } else if (const auto number = reply.number()) {
        described += std::to_string(*number) + '\n';
    } else {
        described += "of " + std::to_string(reply.size()) + '\n';
        for (size_t i = 0; i < reply.size(); ++i) {
            describe(reply[i], described);
        }
    }
}

/// False where the reader broke.
bool take(ReplyTreeReader &reader, std::string_view piece, std::string &described) {
    reader.feed(piece);
    for (;;) {
        switch (reader.next()) {
        case ReplyTreeReader::Next::incomplete:
            return true;
        case ReplyTreeReader::Next::broken:
            described += "broken";
            return false;
        case ReplyTreeReader::Next::reply:
            describe(reader.reply(), described);
            break;
        }
    }
}

std::string trees_in(std::string_view bytes, std::string_view piece_sizes) {
    ReplyTreeReader reader(longest_reply);
    std::string described;
    for (Pieces pieces(bytes, piece_sizes);
         !pieces.empty() && take(reader, pieces.take(), described);) {
    }
    return described;
}

std::string bulk(std::string_view text) {
    return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

/// Mostly what a Sentinel says.
std::string take_words(Input &input) {
    constexpr std::string_view masters[] = {"m", "other"};
    constexpr std::string_view hosts[] = {"10.0.0.1", "::1", "redis.test", "", " "};
    constexpr std::string_view ports[] = {"6379", "0", "65535", "65536", "-1", ""};
    constexpr std::string_view simple[] = {
        "+OK\r\n",
        "*-1\r\n",
        "$-1\r\n",
        "*0\r\n",
        ":1\r\n",
        "-NOAUTH Authentication required.\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n",
    };
    enum : uint64_t { any, address, message, long_text, most = 7 };
    switch (input.number(0, most)) {
    case any:
        return std::string(input.text(255));
    case address: {
        const std::string host = bulk(input.one_of(hosts));
        return "*2\r\n" + host + bulk(input.one_of(ports));
    }
    case message: {
        std::string text(input.one_of(masters));
        text += " 10.0.0.1 6379 " + std::string(input.one_of(hosts));
        text += " " + std::string(input.one_of(ports));
        return "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n" + bulk(text);
    }
    case long_text:
        return bulk(std::string(input.number(0, 2 * longest_reply), 'x'));
    default:
        return std::string(input.one_of(simple));
    }
}

/// All that could be seen from outside.
std::string heard_of_master(std::string_view bytes, std::string_view piece_sizes,
                            bool has_password) {
    Sentinel sentinel(
        {.master_name = "m", .username = "", .password = has_password ? "secret" : ""});
    sentinel.connected();
    auto all = Sentinel::Progress::more;
    for (Pieces pieces(bytes, piece_sizes); !pieces.empty() && all != Sentinel::Progress::broken;) {
        const auto progress = sentinel.received(pieces.take());
        all = progress == Sentinel::Progress::more ? all : progress;
        const redis_client::Endpoint &master = sentinel.master();
        require(progress != Sentinel::Progress::answered ||
                    (!master.host.empty() && master.port > 0),
                "a master has a host and a port");
    }
    return std::to_string(static_cast<int>(all)) + ' ' + sentinel.master().host + ' ' +
           std::to_string(sentinel.master().port) + ' ' + std::string(sentinel.problem().what) +
           ' ' + sentinel.problem().redis_said;
}

} // namespace

void sentinels(Input input) {
    const std::string_view piece_sizes = input.text(8);
    const bool has_password = input.flag();
    std::string bytes;
    for (uint64_t replies = input.number(0, 20); replies > 0; --replies) {
        bytes += take_words(input);
    }
    bytes += input.rest();
    require_same_in_pieces({piece_sizes, single_bytes},
                           [&](std::string_view sizes) { return trees_in(bytes, sizes); });
    require_same_in_pieces({piece_sizes, single_bytes}, [&](std::string_view sizes) {
        return heard_of_master(bytes, sizes, has_password);
    });
}

} // namespace fuzz
