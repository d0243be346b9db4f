// Replies as they come from Redis, in whatever pieces, and what is taken for none.

#include "redis_client/wire/resp.hpp"

#include "resp_test.hpp"
#include "unit/allocations.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {
namespace {

using namespace std::string_literals;

using Strings = std::vector<std::string>;

std::string describe(const Reply &reply) {
    switch (reply.type()) {
    case Reply::Type::text:
        return "text " + std::string(reply.text());
    case Reply::Type::error:
        return "error " + std::string(reply.text());
    case Reply::Type::nil:
        return "nil";
    case Reply::Type::number:
        return "number";
    case Reply::Type::list:
        return "list " + std::string(reply.text());
    }
    return {};
}

/// Feeds one piece and adds what comes of it to `replies`: false where the reader broke.
bool feed(ReplyReader &reader, std::string_view piece, Strings &replies) {
    reader.feed(piece);
    for (;;) {
        switch (reader.next()) {
        case ReplyReader::Next::incomplete:
            return true;
        case ReplyReader::Next::broken:
            replies.push_back("broken");
            return false;
        case ReplyReader::Next::reply:
            replies.push_back(describe(reader.reply()));
        }
    }
}

/// The replies in `stream` cut into pieces of `piece` bytes, up to the one that breaks.
Strings replies_of(std::string_view stream, size_t piece = SIZE_MAX) {
    ReplyReader reader;
    Strings replies;
    while (!stream.empty()) {
        const std::string_view next = stream.substr(0, piece);
        stream.remove_prefix(next.size());
        if (!feed(reader, next, replies)) {
            break;
        }
    }
    return replies;
}

struct Shape {
    std::string wire;
    std::string reply;
};

const std::vector<Shape> shapes = {
    {"+OK\r\n", "text OK"},
    {"+\r\n", "text "},
    {"-ERR no\r\n", "error ERR no"},
    {":0\r\n", "number"},
    {":-1\r\n", "number"},
    {":9223372036854775807\r\n", "number"},
    {":-9223372036854775808\r\n", "number"},
    {"$3\r\nabc\r\n", "text abc"},
    {"$0\r\n\r\n", "text "},
    {"$4\r\n\r\n\r\n\r\n", "text \r\n\r\n"},
    {"$-1\r\n", "nil"},
    {"*-1\r\n", "nil"},
};

std::string all_shapes() {
    std::string wire;
    for (const Shape &shape : shapes) {
        wire += shape.wire;
    }
    return wire;
}

Strings all_replies() {
    Strings replies;
    for (const Shape &shape : shapes) {
        replies.push_back(shape.reply);
    }
    return replies;
}

TEST(ReplyReader, HasNothingBeforeItIsFed) {
    ReplyReader reader;
    EXPECT_EQ(reader.next(), ReplyReader::Next::incomplete);
    reader.feed("");
    EXPECT_EQ(reader.next(), ReplyReader::Next::incomplete);
}

TEST(ReplyReader, ReadsEachShape) {
    for (const auto &[wire, reply] : shapes) {
        EXPECT_EQ(replies_of(wire), Strings{reply}) << wire;
        EXPECT_EQ(replies_of(wire.substr(0, wire.size() - 1)), Strings{}) << wire;
    }
}

TEST(ReplyReader, ReadsPiecesOfEverySize) {
    const std::string stream = all_shapes();
    for (size_t piece = 1; piece <= stream.size(); ++piece) {
        EXPECT_EQ(replies_of(stream, piece), all_replies()) << piece;
    }
}

TEST(ReplyReader, ReadsThreePiecesCutAnywhere) {
    const std::string_view stream = ":-99\r\n$5\r\nab\r\nc\r\n$-1\r\n-ERR no\r\n";
    const Strings expected = {"number", "text ab\r\nc", "nil", "error ERR no"};
    for (size_t first = 0; first <= stream.size(); ++first) {
        for (size_t second = first; second <= stream.size(); ++second) {
            ReplyReader reader;
            Strings replies;
            feed(reader, stream.substr(0, first), replies);
            feed(reader, stream.substr(first, second - first), replies);
            feed(reader, stream.substr(second), replies);
            EXPECT_EQ(replies, expected) << first << ", " << second;
        }
    }
}

TEST(ReplyReader, KeepsTheFirst4096BytesOfAText) {
    const std::string text = repeated("0123456789abcdef", 256);
    for (const size_t piece : {size_t{1}, size_t{100}, SIZE_MAX}) {
        EXPECT_EQ(replies_of("$4096\r\n" + text + "\r\n", piece), Strings{"text " + text});
        EXPECT_EQ(replies_of("$4097\r\n" + text + "x\r\n", piece), Strings{"text " + text});
        EXPECT_EQ(replies_of("-" + text + "x\r\n", piece), Strings{"error " + text});
    }
    const std::string longest = "$16000\r\n" + std::string(16'000, 'x') + "\r\n:1\r\n";
    EXPECT_EQ(replies_of(longest, 1000), (Strings{"text " + std::string(4096, 'x'), "number"}));
}

TEST(ReplyReader, TellsTheSizeOfTheWholeText) {
    for (const size_t size : {0, 1, 40, 4095, 4096, 4097, 16'000}) {
        ReplyReader reader;
        reader.feed("$" + std::to_string(size) + "\r\n" + std::string(size, 'x') + "\r\n");
        ASSERT_EQ(reader.next(), ReplyReader::Next::reply);
        EXPECT_EQ(reader.reply().size(), size);
        reader.feed(":1\r\n");
        ASSERT_EQ(reader.next(), ReplyReader::Next::reply);
        EXPECT_EQ(reader.reply().size(), 0u);
        EXPECT_EQ(reader.reply().text(), "");
    }
}

TEST(ReplyReader, KeepsEveryByteOfAText) {
    const std::string text = every_byte();
    EXPECT_EQ(replies_of("$256\r\n" + text + "\r\n"), Strings{"text " + text});
}

TEST(ReplyReader, ReadsTenThousandRepliesInAnyPieces) {
    const std::string text = "\0\r\n$-1\r\n:1"s;
    const std::string stream = repeated("$10\r\n" + text + "\r\n", 10'000);
    const Strings expected(10'000, "text " + text);
    for (const size_t piece : {7, 1000, 16384}) {
        EXPECT_EQ(replies_of(stream, piece), expected) << piece;
    }
}

// Streams that are no replies of ours, refused with the last byte at the latest.
const Strings refused_at_once = {
    "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    "\r\n",
    "\0"s,
    "\x15\x03\x03\x00\x02\x02\x28"s, // a TLS alert
    "garbage",
    ":\r\n",
    ":x\r\n",
    ": 1\r\n",
    ":+1\r\n",
    ":1.5\r\n",
    ":9223372036854775808\r\n",
    ":99999999999999999999999999\r\n",
    "$\r\n",
    "$x\r\n",
    "$-2\r\n",
    "$9223372036854775808\r\n",
    "*\r\n",
    "*x\r\n",
    "*-2\r\n",
    "*0\r\n",
    "*1\r\n",
    "*9\r\n",
    "*2147483647\r\n",
    "*4294967295\r\n",
    "*9223372036854775807\r\n",
    "*1\r\n:7\r\n",
    "*4\r\n:0\r\n:99\r\n:60000000\r\n:-60000000\r\n",
    "*1\r\n$3\r\nabc\r\n",
    "*1\r\n*0\r\n",
    repeated("*1\r\n", 2000),
    repeated("*8\r\n", 2000),
    // RESP3
    "%1\r\n:1\r\n:2\r\n",
    "~1\r\n:1\r\n",
    ">1\r\n:1\r\n",
    "#t\r\n",
    ",1.5\r\n",
};

TEST(ReplyReader, KeepsTheFirstElementOfAListWhereItTakesLists) {
    ReplyReader reader;
    reader.take_lists(true);
    Strings replies;
    feed(reader, "*2\r\n$1\r\na\r\n*2\r\n$1\r\nb\r\n:1\r\n*0\r\n*1\r\n:1\r\n+OK\r\n", replies);
    EXPECT_EQ(replies, (Strings{"list a", "list ", "list ", "text OK"}));
    reader.take_lists(false);
    EXPECT_FALSE(feed(reader, "*0\r\n", replies));
    reader.reset();
    reader.take_lists(true);
    EXPECT_FALSE(feed(reader, "*1000000\r\n" + repeated(":1\r\n", 10'000), replies));
}

TEST(ReplyReader, BreaksOnWhatIsNoReplyOfOurs) {
    const Allocations made = allocations_of([] {
        for (const std::string &stream : refused_at_once) {
            for (const size_t piece : {size_t{1}, size_t{3}, SIZE_MAX}) {
                EXPECT_EQ(replies_of(stream, piece), Strings{"broken"}) << stream;
            }
        }
    });
    EXPECT_LT(made.largest, 64u * 1024);
}

TEST(ReplyReader, BreaksOnWhatDoesNotEnd) {
    const Strings beginnings = {
        "$536870912\r\n", "$16777216\r\n", "$9223372036854775807\r\n", "+", "-ERR ", ":", "*", "$",
    };
    for (const std::string &beginning : beginnings) {
        const std::string stream = beginning + std::string(1 << 20, '1');
        for (const size_t piece : {size_t{100}, size_t{16'384}}) {
            ReplyReader reader;
            size_t fed = 0;
            const Allocations made = allocations_of([&] {
                Strings replies;
                while (fed < stream.size() &&
                       feed(reader, std::string_view(stream).substr(fed, piece), replies)) {
                    fed += piece;
                }
                EXPECT_EQ(replies, Strings{"broken"}) << beginning;
            });
            EXPECT_LE(fed, ReplyReader::longest_reply + beginning.size() + piece) << beginning;
            EXPECT_LT(made.largest, 128u * 1024) << beginning;
        }
    }
}

TEST(ReplyReader, BreaksOnALongReplyInWhateverPieces) {
    const std::string longest = "$16374\r\n" + std::string(16'374, 'x') + "\r\n";
    const std::string longer = "$16375\r\n" + std::string(16'375, 'x') + "\r\n";
    ASSERT_EQ(longest.size(), ReplyReader::longest_reply);
    for (const size_t piece : {size_t{1}, size_t{1000}, size_t{16'384}, SIZE_MAX}) {
        EXPECT_EQ(replies_of(":1\r\n" + longest + ":2\r\n", piece),
                  (Strings{"number", "text " + std::string(4096, 'x'), "number"}))
            << piece;
        EXPECT_EQ(replies_of(":1\r\n" + longer + ":2\r\n", piece), (Strings{"number", "broken"}))
            << piece;
    }
}

TEST(ReplyReader, GivesTheRepliesBeforeTheFault) {
    EXPECT_EQ(replies_of("+OK\r\n:1\r\nHTTP/1.1"), (Strings{"text OK", "number", "broken"}));
    EXPECT_EQ(replies_of("+OK\r\n*1\r\n:1\r\n:5\r\n"), (Strings{"text OK", "broken"}));
}

TEST(ReplyReader, StaysBrokenUntilReset) {
    for (const std::string &stream :
         {"garbage"s, "*1\r\n+OK\r\n"s, "+" + std::string(20'000, 'x')}) {
        ReplyReader reader;
        Strings replies;
        feed(reader, stream, replies);
        feed(reader, "+OK\r\n", replies);
        EXPECT_EQ(replies, (Strings{"broken", "broken"}));

        reader.reset();
        EXPECT_EQ(reader.next(), ReplyReader::Next::incomplete);
        replies.clear();
        EXPECT_TRUE(feed(reader, all_shapes(), replies));
        EXPECT_EQ(replies, all_replies());
    }
}

TEST(ReplyReader, ForgetsHalfAReplyOnReset) {
    for (const auto &[wire, reply] : shapes) {
        for (size_t size = 0; size < wire.size(); ++size) {
            ReplyReader reader;
            Strings replies;
            feed(reader, wire.substr(0, size), replies);
            reader.reset();
            feed(reader, "$3\r\nabc\r\n", replies);
            EXPECT_EQ(replies, Strings{"text abc"});
        }
    }
}

TEST(ReplyReader, SurvivesRandomStreamsWhateverTheirPieces) {
    constexpr std::string_view alphabet = "*$:+-0123456789\r\n\r\n\r\n:1\r\n*2\r\n$1\r\nx";
    std::mt19937 random(1);
    for (int round = 0; round < 5000; ++round) {
        std::string stream;
        for (size_t size = random() % 64; size > 0; --size) {
            stream += alphabet[random() % alphabet.size()];
        }
        EXPECT_EQ(replies_of(stream, 1), replies_of(stream)) << stream;
    }
}

} // namespace
} // namespace redis_client
