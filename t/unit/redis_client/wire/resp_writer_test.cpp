// Commands as they go to Redis: byte by byte what hiredis would write.

#include "redis_client/wire/resp.hpp"

#include "resp_test.hpp"

#include <gtest/gtest.h>
#include <hiredis/hiredis.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {
namespace {

using namespace std::string_literals;

using Strings = std::vector<std::string>;

std::string formatted_by_hiredis(const Strings &words) {
    std::vector<const char *> data;
    std::vector<size_t> sizes;
    for (const std::string &word : words) {
        data.push_back(word.data());
        sizes.push_back(word.size());
    }
    char *command = nullptr;
    const int size =
        redisFormatCommandArgv(&command, static_cast<int>(words.size()), data.data(), sizes.data());
    const std::string bytes(command, static_cast<size_t>(size));
    redisFreeCommand(command);
    return bytes;
}

void expect_hiredis_bytes(const Strings &words) {
    size_t bytes = 0;
    for (const std::string &word : words) {
        bytes += word.size();
    }
    ByteQueue out;
    CommandWriter command(out, words.size(), bytes);
    ASSERT_TRUE(command.ok());
    for (const std::string &word : words) {
        command.word(word);
    }
    EXPECT_EQ(out.bytes(), formatted_by_hiredis(words));
}

TEST(CommandWriter, GivesTheBytesThatHiredisGives) {
    expect_hiredis_bytes({"PING"});
    expect_hiredis_bytes({"SET", "key", "value"});
    expect_hiredis_bytes({""});
    expect_hiredis_bytes({"SET", "", ""});
    expect_hiredis_bytes({"SET", "a\0b\r\n"s, every_byte()});
    expect_hiredis_bytes({"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"});
    expect_hiredis_bytes({"SET", "key", std::string(100'000, 'x')});
    expect_hiredis_bytes(Strings(1000, "word"));
}

TEST(CommandWriter, WritesNumbersInDecimal) {
    for (const uint64_t number : {uint64_t{0}, uint64_t{9}, uint64_t{10}, UINT64_MAX}) {
        ByteQueue out;
        CommandWriter command(out, 1, 20);
        command.word(number);
        EXPECT_EQ(out.bytes(), formatted_by_hiredis({std::to_string(number)}));
    }
}

TEST(CommandWriter, AddsWordsMadeBeforehand) {
    WireWords words;
    words.add("");
    words.add("aligned");
    words.add(UINT64_MAX);
    words.add(uint64_t{0});
    words.add("first");
    words.add(std::string(20, 'x'));
    words.add("\r\n\0"s);
    words.add("8");
    words.add("9");
    EXPECT_EQ(words.count(), WireWords::most);

    ByteQueue out;
    CommandWriter command(out, 2 + words.count(), words.bytes().size());
    command.word("SET");
    command.wire(words);
    command.word("y");
    EXPECT_EQ(out.bytes(),
              formatted_by_hiredis({"SET", "", "aligned", "18446744073709551615", "0", "first",
                                    std::string(20, 'x'), "\r\n\0"s, "8", "9", "y"}));
}

TEST(CommandWriter, HoldsTheLongestWordsMadeBeforehand) {
    WireWords words;
    for (size_t i = 0; i < WireWords::most; ++i) {
        words.add(UINT64_MAX);
    }
    ByteQueue out;
    CommandWriter command(out, words.count(), words.bytes().size());
    command.wire(words);
    EXPECT_EQ(out.bytes(), formatted_by_hiredis(Strings(words.count(), "18446744073709551615")));
}

TEST(CommandWriter, WritesNothingWithoutMemory) {
    ByteQueue out;
    write_command(out, {"PING"});
    EXPECT_FALSE(CommandWriter(out, 2, SIZE_MAX / 2).ok());
    EXPECT_EQ(out.bytes(), formatted_by_hiredis({"PING"}));
    EXPECT_TRUE(write_command(out, {"PING"}));
    EXPECT_EQ(out.bytes(), repeated(formatted_by_hiredis({"PING"}), 2));
}

TEST(WriteCommand, AppendsToWhatIsThere) {
    ByteQueue out;
    for (int i = 0; i < 1000; ++i) {
        EXPECT_TRUE(write_command(out, {"PING", "x"}));
    }
    EXPECT_EQ(out.bytes(), repeated(formatted_by_hiredis({"PING", "x"}), 1000));
}

TEST(WriteCommand, WritesNothingWithoutMemory) {
    ByteQueue out;
    write_command(out, {"PING"});
    const std::string_view unreadable("", SIZE_MAX / 2); // refused before a byte of it is read
    EXPECT_FALSE(write_command(out, {"SET", "key", unreadable}));
    EXPECT_EQ(out.bytes(), formatted_by_hiredis({"PING"}));
}

} // namespace
} // namespace redis_client
