#include "script.hpp"

#include <openssl/sha.h>

#include <initializer_list>

// The assembler reads the file, so that the Lua stays a file of its own and needs no generator.
// RATE_LIMIT_LUA_DIR comes from config.make or CMakeLists.txt.
// NOLINTBEGIN(bugprone-macro-parentheses): a name that is declared takes none.
#define EMBED(symbol, file)                                                                        \
    asm(".pushsection .rodata\n" #symbol ":\n"                                                     \
        ".incbin \"" RATE_LIMIT_LUA_DIR "/" file "\"\n" #symbol "_end:\n"                          \
        ".byte 0\n"                                                                                \
        ".popsection\n");                                                                          \
    extern "C" const char symbol[];                                                                \
    extern "C" const char symbol##_end[]
// NOLINTEND(bugprone-macro-parentheses)

EMBED(redis_rate_limit_lua_fixed_window, "fixed_window.lua");
EMBED(redis_rate_limit_lua_sliding_log, "sliding_log.lua");
EMBED(redis_rate_limit_lua_sliding_window, "sliding_window.lua");
EMBED(redis_rate_limit_lua_gcra, "gcra.lua");

namespace redis_client {

namespace {

std::string sha1_hex(std::string_view text) {
    constexpr std::string_view digits = "0123456789abcdef";
    unsigned char hash[SHA_DIGEST_LENGTH];
    SHA1(reinterpret_cast<const unsigned char *>(text.data()), text.size(), hash);
    std::string hex;
    for (const unsigned char byte : hash) {
        hex += digits[byte >> 4];
        hex += digits[byte & 15];
    }
    return hex;
}

Script embedded(const char *begin, const char *end) {
    const std::string_view source(begin, static_cast<size_t>(end - begin));
    return {.source = source, .sha1 = sha1_hex(source)};
}

WireWords wire_words(std::initializer_list<std::string> words) {
    WireWords wire;
    for (const std::string &word : words) {
        wire.bytes += bulk_string(word);
    }
    wire.count = words.size();
    return wire;
}

std::string time_to_live(std::chrono::microseconds state) {
    return std::to_string(
        (std::chrono::ceil<std::chrono::milliseconds>(state) + expiry_margin).count());
}

/// The interval and the whole bucket, as microseconds and parts of one.
WireWords bucket_arguments(const rate_limit::Rule &rule) {
    __extension__ using Wide = unsigned __int128;
    const rate_limit::Interval interval(rule);
    const Wide full = Wide{interval.length} * rule.capacity();
    return wire_words({std::to_string(interval.length / interval.parts),
                       std::to_string(interval.length % interval.parts),
                       std::to_string(static_cast<uint64_t>(full / interval.parts)),
                       std::to_string(static_cast<uint64_t>(full % interval.parts)),
                       std::to_string(interval.parts), time_to_live(rule.refill())});
}

} // namespace

const Script &script_of(rate_limit::Algorithm algorithm) {
    static const Script fixed_window =
        embedded(redis_rate_limit_lua_fixed_window, redis_rate_limit_lua_fixed_window_end);
    static const Script sliding_log =
        embedded(redis_rate_limit_lua_sliding_log, redis_rate_limit_lua_sliding_log_end);
    static const Script sliding_window =
        embedded(redis_rate_limit_lua_sliding_window, redis_rate_limit_lua_sliding_window_end);
    static const Script gcra = embedded(redis_rate_limit_lua_gcra, redis_rate_limit_lua_gcra_end);
    switch (algorithm) {
    case rate_limit::Algorithm::fixed_window:
        return fixed_window;
    case rate_limit::Algorithm::sliding_window:
        return sliding_window;
    case rate_limit::Algorithm::token_bucket: // decides as gcra does
    case rate_limit::Algorithm::gcra:
        return gcra;
    case rate_limit::Algorithm::sliding_log:
        break;
    }
    return sliding_log;
}

WireWords script_arguments(const rate_limit::Rule &rule) {
    const std::chrono::microseconds window = rule.window;
    switch (rule.algorithm) {
    case rate_limit::Algorithm::token_bucket:
    case rate_limit::Algorithm::gcra:
        return bucket_arguments(rule);
    case rate_limit::Algorithm::fixed_window:
        return wire_words({std::to_string(rule.limit), std::to_string(window.count()),
                           time_to_live(window), rule.aligned ? "aligned" : "first"});
    case rate_limit::Algorithm::sliding_window:
        return wire_words(
            {std::to_string(rule.limit), std::to_string(window.count()), time_to_live(2 * window)});
    case rate_limit::Algorithm::sliding_log:
        break;
    }
    return wire_words(
        {std::to_string(rule.limit), std::to_string(window.count()), time_to_live(window)});
}

} // namespace redis_client
