#include "lua_source.hpp"

#include "../rate_limit/embed.hpp"

EMBED(redis_rate_limit_lua_one_check, "lua/one_check.lua");
EMBED(redis_rate_limit_lua_batch_of_checks, "lua/batch_of_checks.lua");
EMBED(redis_rate_limit_lua_any_rules, "lua/any_rules.lua");
EMBED(redis_rate_limit_lua_fixed_window, "lua/fixed_window.lua");
EMBED(redis_rate_limit_lua_sliding_log, "lua/sliding_log.lua");
EMBED(redis_rate_limit_lua_sliding_window, "lua/sliding_window.lua");
EMBED(redis_rate_limit_lua_gcra, "lua/gcra.lua");
EMBED(redis_rate_limit_lua_concurrency, "lua/concurrency.lua");

namespace redis_client {

namespace {

using rate_limit::embedded;

/// Takes what stands before the line; without that line, all.
std::string_view take_until(std::string_view &text, std::string_view line) {
    const size_t at = text.find(line);
    const std::string_view taken = text.substr(0, at);
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + line.size());
    return taken;
}

LuaSource cut(std::string_view text) {
    LuaSource source;
    source.check = take_until(text, "\n-- charge\n");
    source.charge = take_until(text, "\n-- refund\n");
    source.refund = take_until(text, "\n-- renew\n");
    source.renew = text;
    return source;
}

LuaFrame cut_frame(std::string_view text) {
    const std::string_view head = take_until(text, "\n-- rules\n");
    return {.head = head, .tail = text};
}

std::string_view file_of(rate_limit::Algorithm algorithm) {
    switch (algorithm) {
    case rate_limit::Algorithm::fixed_window:
        return embedded(redis_rate_limit_lua_fixed_window, redis_rate_limit_lua_fixed_window_end);
    case rate_limit::Algorithm::sliding_log:
        return embedded(redis_rate_limit_lua_sliding_log, redis_rate_limit_lua_sliding_log_end);
    case rate_limit::Algorithm::sliding_window:
        return embedded(redis_rate_limit_lua_sliding_window,
                        redis_rate_limit_lua_sliding_window_end);
    case rate_limit::Algorithm::token_bucket: // these three decide alike
    case rate_limit::Algorithm::gcra:
    case rate_limit::Algorithm::leaky_bucket:
        return embedded(redis_rate_limit_lua_gcra, redis_rate_limit_lua_gcra_end);
    case rate_limit::Algorithm::concurrency:
        return embedded(redis_rate_limit_lua_concurrency, redis_rate_limit_lua_concurrency_end);
    }
    return {};
}

} // namespace

LuaSource lua_source(rate_limit::Algorithm algorithm) {
    return cut(file_of(algorithm));
}

LuaFrame lua_one_check() {
    return cut_frame(embedded(redis_rate_limit_lua_one_check, redis_rate_limit_lua_one_check_end));
}

LuaFrame lua_batch_of_checks() {
    return cut_frame(
        embedded(redis_rate_limit_lua_batch_of_checks, redis_rate_limit_lua_batch_of_checks_end));
}

LuaFrame lua_any() {
    return cut_frame(embedded(redis_rate_limit_lua_any_rules, redis_rate_limit_lua_any_rules_end));
}

bool has_script(rate_limit::Algorithm algorithm) {
    return !lua_one_check().head.empty() && !lua_batch_of_checks().head.empty() &&
           !lua_any().head.empty() && !file_of(algorithm).empty();
}

} // namespace redis_client
