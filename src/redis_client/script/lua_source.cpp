#include "redis_client/script/lua_source.hpp"

#include "rate_limit/algorithms/algorithm_family.hpp"
#include "rate_limit/embed.hpp"

#include <algorithm>

EMBED(redis_rate_limit_lua_one_check, "lua/one_check.lua");
EMBED(redis_rate_limit_lua_batch_of_checks, "lua/batch_of_checks.lua");
EMBED(redis_rate_limit_lua_any_rules, "lua/any_rules.lua");
EMBED(redis_rate_limit_lua_settlements, "lua/settlements.lua");
EMBED(redis_rate_limit_lua_block, "lua/block.lua");
EMBED(redis_rate_limit_lua_live_write, "lua/live_write.lua");
EMBED(redis_rate_limit_lua_live_changes, "lua/live_changes.lua");
EMBED(redis_rate_limit_lua_live_records, "lua/live_records.lua");
EMBED(redis_rate_limit_lua_live_restore, "lua/live_restore.lua");
EMBED(redis_rate_limit_lua_live_rules, "lua/live_rules.lua");

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
    std::string_view charge_and_lease = take_until(charge, "\n-- debt\n");
    source.charge = take_until(charge_and_lease, "\n-- lease\n");
    source.lease = charge_and_lease;
    source.debt = charge;
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

LuaSource lua_block() {
    return cut(embedded(redis_rate_limit_lua_block, redis_rate_limit_lua_block_end));
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

LuaFrame lua_settlements() {
    return cut_frame(
        embedded(redis_rate_limit_lua_settlements, redis_rate_limit_lua_settlements_end));
}

std::string_view lua_live_write() {
    return embedded(redis_rate_limit_lua_live_write, redis_rate_limit_lua_live_write_end);
}

std::string_view lua_live_changes() {
    return embedded(redis_rate_limit_lua_live_changes, redis_rate_limit_lua_live_changes_end);
}

std::string_view lua_live_records() {
    return embedded(redis_rate_limit_lua_live_records, redis_rate_limit_lua_live_records_end);
}

std::string_view lua_live_restore() {
    return embedded(redis_rate_limit_lua_live_restore, redis_rate_limit_lua_live_restore_end);
}

std::string_view lua_live_rules() {
    return embedded(redis_rate_limit_lua_live_rules, redis_rate_limit_lua_live_rules_end);
}

std::string without_comments(std::string_view text) {
    std::string code;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
        const std::string_view line = text.substr(0, end);
        const size_t begin = line.find_first_not_of(" \n");
        if (begin != std::string_view::npos && !line.substr(begin).starts_with("--")) {
            code += line;
        }
        text.remove_prefix(end);
    }
    if (!code.empty() && code.back() != '\n') {
        code += '\n';
    }
    return code;
}

bool has_script(rate_limit::Algorithm algorithm) {
    return !lua_one_check().head.empty() && !lua_batch_of_checks().head.empty() &&
           !lua_any().head.empty() && !lua_settlements().head.empty() &&
           !lua_block().check.empty() && !file_of(algorithm).empty();
}

} // namespace redis_client
