#include "lua_source.hpp"

#include "../rate_limit/algorithm_family.hpp"
#include "../rate_limit/embed.hpp"

EMBED(redis_rate_limit_lua_one_check, "lua/one_check.lua");
EMBED(redis_rate_limit_lua_batch_of_checks, "lua/batch_of_checks.lua");
EMBED(redis_rate_limit_lua_any_rules, "lua/any_rules.lua");

namespace redis_client {

namespace {

using rate_limit::embedded;

/// Takes the text before the line, or all of it if it does not have the line.
std::string_view take_until(std::string_view &text, std::string_view line) {
    const size_t at = text.find(line);
    const std::string_view taken = text.substr(0, at);
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + line.size());
    return taken;
}

LuaSource cut(std::string_view text) {
    LuaSource source;
    source.check = take_until(text, "\n-- charge\n");
    std::string_view charge = take_until(text, "\n-- refund\n");
    source.charge = take_until(charge, "\n-- lease\n");
    source.lease = charge;
    source.refund = take_until(text, "\n-- renew\n");
    source.renew = text;
    return source;
}

LuaFrame cut_frame(std::string_view text) {
    const std::string_view head = take_until(text, "\n-- rules\n");
    return {.head = head, .tail = text};
}

std::string_view file_of(rate_limit::Algorithm algorithm) {
    return rate_limit::traits_of(algorithm).family.script();
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
