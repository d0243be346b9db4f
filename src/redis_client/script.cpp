#include "script.hpp"

#include <openssl/sha.h>

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

EMBED(redis_rate_limit_lua_sliding_log, "sliding_log.lua");

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

} // namespace

const Script &script_of(rate_limit::Algorithm algorithm) {
    switch (algorithm) {
    case rate_limit::Algorithm::sliding_log:
        break;
    }
    static const Script sliding_log =
        embedded(redis_rate_limit_lua_sliding_log, redis_rate_limit_lua_sliding_log_end);
    return sliding_log;
}

WireWords script_arguments(const rate_limit::Rule &rule) {
    const std::chrono::microseconds window = rule.window;
    const std::chrono::milliseconds time_to_live = rule.window + expiry_margin;
    return {.bytes = bulk_string(std::to_string(rule.limit)) +
                     bulk_string(std::to_string(window.count())) +
                     bulk_string(std::to_string(time_to_live.count())),
            .count = 3};
}

} // namespace redis_client
