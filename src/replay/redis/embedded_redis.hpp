// Runs the scripts in LuaJIT, with the few commands of Redis that they use, on the clock that the
// caller says.
#pragma once

#include "replay/redis/key_store.hpp"
#include "replay/redis/redis.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

struct lua_State;

namespace replay {

class EmbeddedRedis : public Redis {
  public:
    EmbeddedRedis();
    ~EmbeddedRedis() override;
    EmbeddedRedis(const EmbeddedRedis &) = delete;
    EmbeddedRedis &operator=(const EmbeddedRedis &) = delete;

    /// A script without its text is run if it was run with it before. Takes the commands of
    /// scripts, too.
    Answer run(std::string_view command, int64_t now_us) override;

    /// As SCRIPT LOAD: returns the script's SHA-1, or nothing if it is none.
    std::string load(std::string_view text);
    /// As SCRIPT FLUSH.
    void forget_scripts();

    KeyStore &keys() { return keys_; }

  private:
    struct Script {
        int function = 0;       // in Lua's registry
        std::string arguments;  // the words of ARGV, as they came last
        int argument_table = 0; // in Lua's registry, too
    };

    Script *script(std::string_view command, std::string_view text_or_name);
    void set_keys(std::string_view &words, size_t keys);
    Answer call(Script &script, std::string_view words, size_t keys);
    Answer run_plain(std::string_view name, std::string_view words);
    Answer answer();
    Answer failed();

    KeyStore keys_;
    lua_State *lua_;
    std::unordered_map<std::string, Script> scripts_; // by their SHA-1
    std::string last_name_;                           // of the script that ran last
    Script *last_ = nullptr;
    std::string list_; // the last reply that was one
};

} // namespace replay
