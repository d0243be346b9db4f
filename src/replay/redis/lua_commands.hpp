// What the scripts find in Redis's Lua: redis.call() with the commands that they use, and the two
// functions of `struct` for the formats that they use.
#pragma once

#include "replay/redis/key_store.hpp"

struct lua_State;

namespace replay {

/// Defines `redis` and `struct` for scripts that work on these keys, which have to outlive them. A
/// command or a form of it that no script of ours uses is refused by an error.
void register_commands(lua_State *lua, KeyStore &keys);

} // namespace replay
