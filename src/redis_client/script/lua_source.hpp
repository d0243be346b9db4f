// The files of lua/, cut at their `-- charge`, `-- lease`, `-- debt`, `-- refund` and `-- renew`
// lines. Those of algorithms are embedded by their families in src/rate_limit.
#pragma once

#include "rate_limit/rule/rule.hpp"

#include <string>
#include <string_view>

namespace redis_client {

/// Static text. A part that a file does not have is empty.
struct LuaSource {
    std::string_view check;
    std::string_view charge;
    std::string_view lease;
    std::string_view debt;
    std::string_view refund;
    std::string_view renew;
};

LuaSource lua_source(rate_limit::Algorithm algorithm);
LuaSource lua_block(); // lua/block.lua, which has a check and a charge

/// A file before and after its `-- rules` line.
struct LuaFrame {
    std::string_view head;
    std::string_view tail;
};

LuaFrame lua_one_check();       // lua/one_check.lua, of one check
LuaFrame lua_batch_of_checks(); // lua/batch_of_checks.lua, of many
LuaFrame lua_any();             // lua/any_rules.lua, of one check of any rules
LuaFrame lua_settlements();     // lua/settlements.lua

/// The scripts that write and read what operators have set: lua/live_*.lua. Static text.
std::string_view lua_live_write();
std::string_view lua_live_changes();
std::string_view lua_live_records();
std::string_view lua_live_restore();
std::string_view lua_live_rules();

/// Returns the text without the lines that are comments, which Redis need not have.
std::string without_comments(std::string_view text);

/// Returns false if one of the files that make up the script of a rule has no text. A compiler that
/// embeds files wrongly gives no error.
bool has_script(rate_limit::Algorithm algorithm);

} // namespace redis_client
