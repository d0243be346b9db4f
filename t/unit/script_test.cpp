#include "redis_client/script.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <fstream>
#include <iterator>
#include <string>

namespace redis_client {
namespace {

using namespace std::chrono_literals;

const Script &sliding_log() {
    return script_of(rate_limit::Algorithm::sliding_log);
}

std::string sha1(std::string_view text) {
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_Digest(text.data(), text.size(), hash, &size, EVP_sha1(), nullptr);
    std::string hex;
    for (unsigned int i = 0; i < size; ++i) {
        char digits[3];
        std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned>(hash[i]));
        hex += digits;
    }
    return hex;
}

std::string arguments(uint64_t limit, std::chrono::milliseconds window) {
    rate_limit::Rule rule;
    rule.zone = "z";
    rule.limit = limit;
    rule.window = window;
    const WireWords words = script_arguments(rule);
    EXPECT_EQ(words.count, 3u);
    return words.bytes;
}

std::string file_of(const std::string &name) {
    std::string path = __FILE__;
    path.erase(path.rfind("t/unit/"));
    std::ifstream file(path + "lua/" + name + ".lua", std::ios::binary);
    EXPECT_TRUE(file) << name;
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Script, IsTheFileByteForByteAndNamedByItsSha1) {
    using enum rate_limit::Algorithm;
    const std::pair<rate_limit::Algorithm, std::string> files[] = {
        {fixed_window, "fixed_window"},
        {sliding_log, "sliding_log"},
        {sliding_window, "sliding_window"},
        {token_bucket, "gcra"},
        {gcra, "gcra"}};
    for (const auto &[algorithm, file] : files) {
        const Script &script = script_of(algorithm);
        EXPECT_FALSE(script.source.empty());
        EXPECT_EQ(script.source, file_of(file));
        EXPECT_EQ(script.sha1.size(), 40u);
        EXPECT_EQ(script.sha1, sha1(script.source));
    }
}

TEST(Script, IsOneObject) {
    EXPECT_EQ(&sliding_log(), &sliding_log());
}

TEST(Script, TakesLimitWindowInMicrosecondsAndTimeToLiveInMilliseconds) {
    EXPECT_EQ(arguments(100, 60s), "$3\r\n100\r\n$8\r\n60000000\r\n$5\r\n65001\r\n");
    EXPECT_EQ(arguments(1, 1ms), "$1\r\n1\r\n$4\r\n1000\r\n$4\r\n5002\r\n");
    EXPECT_EQ(arguments(1'000'000, rate_limit::longest_window),
              "$7\r\n1000000\r\n$14\r\n31622400000000\r\n$11\r\n31622405001\r\n");
}

TEST(Script, TakesABucketInWholePartsOfAMicrosecond) {
    rate_limit::Rule rule;
    rule.algorithm = rate_limit::Algorithm::gcra;
    rule.limit = 700'000;
    rule.window = 1s; // a unit each 10/7 us
    rule.burst = 3;
    EXPECT_EQ(script_arguments(rule).bytes, "$1\r\n1\r\n$1\r\n3\r\n" // 1 3/7 us
                                            "$1\r\n5\r\n$1\r\n5\r\n" // four: 5 5/7 us
                                            "$1\r\n7\r\n$4\r\n5002\r\n");
    rule.limit = 0; // is never asked for
    EXPECT_EQ(script_arguments(rule).count, 6u);
}

} // namespace
} // namespace redis_client
