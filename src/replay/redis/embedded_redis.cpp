#include "replay/redis/embedded_redis.hpp"

#include "redis_client/script/script.hpp"
#include "replay/redis/lua_commands.hpp"
#include "replay/syntax/command_words.hpp"

#include <lua.hpp>

#include <charconv>
#include <utility>

namespace replay {

namespace {

size_t number_of(std::string_view word) {
    size_t number = 0;
    std::from_chars(word.data(), word.data() + word.size(), number);
    return number;
}

/// Makes a table of all words, at the top of Lua's stack.
void push_table(lua_State *lua, std::string_view words) {
    lua_newtable(lua);
    for (int i = 1; !words.empty(); ++i) {
        const std::string_view word = take_word(words);
        lua_pushlstring(lua, word.data(), word.size());
        lua_rawseti(lua, -2, i);
    }
}

std::string_view text_at_top(lua_State *lua) {
    size_t size = 0;
    const char *text = lua_tolstring(lua, -1, &size);
    return {text, size};
}

/// Writes the value at the top of Lua's stack in RESP, as Redis does with what a script returns: a
/// table ends at its first nil.
void write_value(lua_State *lua, std::string &out) {
    switch (lua_type(lua, -1)) {
    case LUA_TNUMBER:
        out += ":" + std::to_string(static_cast<int64_t>(lua_tonumber(lua, -1))) + "\r\n";
        return;
    case LUA_TSTRING: {
        const std::string_view text = text_at_top(lua);
        out += "$" + std::to_string(text.size()) + "\r\n";
        out.append(text).append("\r\n");
        return;
    }
    case LUA_TTABLE:
        break;
    default:
        out += "$-1\r\n";
        return;
    }
    for (const auto &[member, mark] : {std::pair("ok", '+'), {"err", '-'}}) {
        lua_getfield(lua, -1, member);
        const bool is_such = lua_isstring(lua, -1) != 0;
        if (is_such) {
            out.append(1, mark).append(text_at_top(lua)).append("\r\n");
        }
        lua_pop(lua, 1);
        if (is_such) {
            return;
        }
    }
    std::string elements;
    int count = 0;
    for (;; ++count) {
        lua_rawgeti(lua, -1, count + 1);
        if (lua_isnil(lua, -1)) {
            lua_pop(lua, 1);
            break;
        }
        write_value(lua, elements);
        lua_pop(lua, 1);
    }
    out += "*" + std::to_string(count) + "\r\n" + elements;
}

/// Scripts may neither make global variables nor read any that is not there.
void protect_globals(lua_State *lua) {
    for (const char *name : {"KEYS", "ARGV"}) {
        lua_newtable(lua);
        lua_setglobal(lua, name);
    }
    (void)luaL_dostring(lua, R"(
        setmetatable(_G, {
            __index = function(_, name)
                error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
            end,
            __newindex = function() error('Attempt to modify a readonly table', 2) end,
        }))");
}

} // namespace

EmbeddedRedis::EmbeddedRedis() : lua_(luaL_newstate()) {
    luaL_openlibs(lua_);
    register_commands(lua_, keys_);
    protect_globals(lua_);
    // The scripts call C at every few steps, which the compiler of LuaJIT cannot follow: without it
    // a check takes a tenth less.
    luaJIT_setmode(lua_, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
}

EmbeddedRedis::~EmbeddedRedis() {
    lua_close(lua_);
}

EmbeddedRedis::Script *EmbeddedRedis::script(std::string_view command,
                                             std::string_view text_or_name) {
    if (last_ != nullptr && text_or_name == last_name_) {
        return last_;
    }
    std::string name(text_or_name);
    if (command == "EVAL") {
        name = load(text_or_name);
        if (name.empty()) {
            return nullptr;
        }
    }
    const auto found = scripts_.find(name);
    if (found == scripts_.end()) {
        lua_pushliteral(lua_, "NOSCRIPT No matching script. Please use EVAL.");
        return nullptr;
    }
    last_name_ = name;
    last_ = &found->second;
    return last_;
}

std::string EmbeddedRedis::load(std::string_view text) {
    std::string name = redis_client::Script(std::string(text)).sha1;
    if (!scripts_.contains(name)) {
        if (luaL_loadbuffer(lua_, text.data(), text.size(), "@user_script") != 0) {
            return {};
        }
        Script made;
        made.function = luaL_ref(lua_, LUA_REGISTRYINDEX);
        made.argument_table = LUA_NOREF;
        scripts_.emplace(name, made);
    }
    return name;
}

void EmbeddedRedis::forget_scripts() {
    for (const auto &[name, script] : scripts_) {
        luaL_unref(lua_, LUA_REGISTRYINDEX, script.function);
        luaL_unref(lua_, LUA_REGISTRYINDEX, script.argument_table);
    }
    scripts_.clear();
    last_ = nullptr;
}

Answer EmbeddedRedis::run(std::string_view command, int64_t now_us) {
    lua_settop(lua_, 0);
    keys_.set_now(now_us);
    take_count(command);
    const std::string_view name = take_word(command);
    if (name != "EVAL" && name != "EVALSHA") {
        return run_plain(name, command);
    }
    const std::string_view text_or_name = take_word(command);
    const size_t keys = number_of(take_word(command));
    Script *of_command = script(name, text_or_name);
    return of_command != nullptr ? call(*of_command, command, keys) : failed();
}

/// Sets KEYS to the first words, which are taken off. Most calls have as many as the one before,
/// and use its table.
void EmbeddedRedis::set_keys(std::string_view &words, size_t keys) {
    lua_getglobal(lua_, "KEYS");
    if (lua_objlen(lua_, -1) != keys) {
        lua_pop(lua_, 1);
        lua_newtable(lua_);
        lua_pushvalue(lua_, -1);
        lua_setglobal(lua_, "KEYS");
    }
    for (size_t i = 1; i <= keys; ++i) {
        const std::string_view key = take_word(words);
        lua_pushlstring(lua_, key.data(), key.size());
        lua_rawseti(lua_, -2, static_cast<int>(i));
    }
    lua_pop(lua_, 1);
}

/// The arguments of checks of one rule are always the same, so their table is kept.
Answer EmbeddedRedis::call(Script &script, std::string_view words, size_t keys) {
    set_keys(words, keys);
    if (script.argument_table == LUA_NOREF || script.arguments != words) {
        luaL_unref(lua_, LUA_REGISTRYINDEX, script.argument_table);
        push_table(lua_, words);
        script.argument_table = luaL_ref(lua_, LUA_REGISTRYINDEX);
        script.arguments = words;
    }
    lua_rawgeti(lua_, LUA_REGISTRYINDEX, script.argument_table);
    lua_setglobal(lua_, "ARGV");
    lua_rawgeti(lua_, LUA_REGISTRYINDEX, script.function);
    if (lua_pcall(lua_, 0, 1, 0) != 0) {
        return failed();
    }
    return answer();
}

/// A client's own command is what a script's call of it would be.
Answer EmbeddedRedis::run_plain(std::string_view name, std::string_view words) {
    lua_getglobal(lua_, "redis");
    lua_getfield(lua_, -1, "call");
    lua_pushlstring(lua_, name.data(), name.size());
    int count = 1;
    for (; !words.empty(); ++count) {
        const std::string_view word = take_word(words);
        lua_pushlstring(lua_, word.data(), word.size());
    }
    if (lua_pcall(lua_, count, 1, 0) != 0) {
        return failed();
    }
    if (name == "TIME") { // scripts get it as numbers
        for (int i = 1; i <= 2; ++i) {
            lua_rawgeti(lua_, -1, i);
            lua_tostring(lua_, -1);
            lua_rawseti(lua_, -2, i);
        }
    }
    return answer();
}

/// Takes what is at the top of Lua's stack.
Answer EmbeddedRedis::answer() {
    Answer answer;
    switch (lua_type(lua_, -1)) {
    case LUA_TSTRING:
        answer.type = Answer::Type::text;
        answer.text = text_at_top(lua_);
        break;
    case LUA_TNUMBER:
        answer.type = Answer::Type::number;
        answer.number = static_cast<int64_t>(lua_tonumber(lua_, -1));
        break;
    case LUA_TTABLE:
        answer.type = Answer::Type::list;
        list_.clear();
        write_value(lua_, list_);
        answer.text = list_;
        break;
    default: // no script of ours returns true
        break;
    }
    return answer;
}

/// The message is at the top of Lua's stack.
Answer EmbeddedRedis::failed() {
    return {.type = Answer::Type::error,
            .text = lua_isstring(lua_, -1) ? text_at_top(lua_) : "ERR an error without a text"};
}

} // namespace replay
