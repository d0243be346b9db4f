#include "replay/redis/lua_commands.hpp"

#include <lua.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>

namespace replay {

namespace {

constexpr int64_t largest_whole_double = int64_t{1} << 53;

/// One redis.call(). The command's words are Lua's arguments, the first of them its name.
class Call {
  public:
    Call(lua_State *lua, KeyStore &keys) : lua(lua), keys(keys), words_(lua_gettop(lua)) {}

    lua_State *lua;
    KeyStore &keys;

    int words() const { return words_; }

    /// Returns a word. Redis gets numbers from Lua as text, too.
    std::string_view word(int index) {
        size_t size = 0;
        if (lua_type(lua, index) == LUA_TNUMBER) {
            std::array<char, 32> &out = numbers_[static_cast<size_t>(index) % numbers_.size()];
            return write(lua_tonumber(lua, index), out);
        }
        const char *text = lua_tolstring(lua, index, &size);
        return {text, text != nullptr ? size : 0};
    }
    std::string_view key() { return word(2); }

    /// Whether a word is a number for Lua, and a whole one: as text it would be the same.
    bool is_whole_number(int index) const {
        return lua_type(lua, index) == LUA_TNUMBER && is_whole(lua_tonumber(lua, index));
    }

    /// Returns the number that a word is, or nothing.
    template <typename Number>
    std::optional<Number> number(int index) {
        if (is_whole_number(index)) {
            return static_cast<Number>(lua_tonumber(lua, index));
        }
        const std::string_view text = word(index);
        Number parsed = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
        return error == std::errc{} && end == text.data() + text.size() ? std::optional(parsed)
                                                                        : std::nullopt;
    }
    std::optional<int64_t> whole(int index) { return number<int64_t>(index); }
    std::optional<double> score(int index) { return number<double>(index); }

    /// Returns the key's value of that type; null if there is no such key. If it has another type,
    /// the call fails, and this is null, too.
    template <typename T>
    T *find() {
        KeyStore::Value *value = keys.find(key());
        T *found = value != nullptr ? std::get_if<T>(value) : nullptr;
        if (value != nullptr && found == nullptr) {
            fail("WRONGTYPE Operation against a key holding the wrong kind of value");
        }
        return found;
    }
    /// The same, and makes the key if there is none.
    template <typename T>
    T *find_or_make() {
        T *found = find<T>();
        return found != nullptr || has_failed() ? found : &keys.make(key()).emplace<T>();
    }

    int fail(const char *error) {
        error_ = error;
        return 0;
    }
    bool has_failed() const { return error_ != nullptr; }
    const char *error() const { return error_; }

    int push(std::string_view text) const {
        lua_pushlstring(lua, text.data(), text.size());
        return 1;
    }
    int push(int64_t number) const {
        lua_pushnumber(lua, static_cast<double>(number));
        return 1;
    }
    int push_nil() const { // Redis makes false of it
        lua_pushboolean(lua, 0);
        return 1;
    }
    int push_as_text(int64_t number) const {
        std::array<char, 24> out;
        const char *end = std::to_chars(out.data(), out.data() + out.size(), number).ptr;
        return push({out.data(), static_cast<size_t>(end - out.data())});
    }
    void push_score(double score) const {
        std::array<char, 32> out;
        push(write(score, out));
    }

    static bool is_whole(double number) {
        return number == std::floor(number) && std::abs(number) <= largest_whole_double;
    }
    static std::string_view write(double number, std::array<char, 32> &out) {
        char *end = nullptr;
        if (is_whole(number)) {
            end = std::to_chars(out.data(), out.data() + out.size(), static_cast<int64_t>(number))
                      .ptr;
        } else {
            end = std::to_chars(out.data(), out.data() + out.size(), number).ptr;
        }
        return {out.data(), static_cast<size_t>(end - out.data())};
    }

  private:
    int words_;
    const char *error_ = nullptr;
    std::array<std::array<char, 32>, 4> numbers_;
};

constexpr const char *no_number = "ERR value is not an integer or out of range";
constexpr const char *no_score = "ERR value is not a valid float";
constexpr const char *no_bounds = "ERR min or max is not a float";
constexpr const char *no_syntax = "ERR syntax error";

int get(Call &call) {
    const auto *text = call.find<std::string>();
    return text != nullptr ? call.push(*text) : call.push_nil();
}

/// Places in a list or a set: from `first` on, before `end`. There are none if that is not later.
struct Places {
    int64_t first;
    int64_t end;
};

/// Returns the places that words 3 and 4 mean, the first and the last one; below 0 they count from
/// the end. Returns nothing if they are no numbers.
std::optional<Places> places_of(Call &call, size_t size_of_all) {
    const auto start = call.whole(3);
    const auto stop = call.whole(4);
    if (!start || !stop) {
        return std::nullopt;
    }
    const auto size = static_cast<int64_t>(size_of_all);
    return Places{.first = std::max<int64_t>(*start < 0 ? *start + size : *start, 0),
                  .end = std::min((*stop < 0 ? *stop + size : *stop) + 1, size)};
}

/// One end of a range of scores. It may be without the score itself.
struct Bound {
    double score;
    bool is_open;
};

std::optional<Bound> bound_of(Call &call, int index) {
    std::string_view text = call.word(index);
    if (text == "-inf" || text == "+inf") {
        const double infinite = std::numeric_limits<double>::infinity();
        return Bound{.score = text == "-inf" ? -infinite : infinite, .is_open = false};
    }
    const bool is_open = text.starts_with('(');
    text.remove_prefix(is_open ? 1 : 0);
    double score = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), score);
    return error == std::errc{} && end == text.data() + text.size()
               ? std::optional(Bound{.score = score, .is_open = is_open})
               : std::nullopt;
}

/// Scores that words 3 and 4 mean.
struct Scores {
    Bound least;
    Bound most;

    /// Returns the first element of a set that is not before them.
    auto first_of(const SortedSet &set) const {
        auto first = set.elements().lower_bound({least.score, {}});
        while (least.is_open && first != set.elements().end() && first->first == least.score) {
            ++first;
        }
        return first;
    }
    /// Whether the element of the set is not behind them.
    bool have(const SortedSet &set, std::set<SortedSet::Element>::const_iterator at) const {
        return at != set.elements().end() &&
               (most.is_open ? at->first < most.score : at->first <= most.score);
    }
};

std::optional<Scores> scores_of(Call &call) {
    const auto least = bound_of(call, 3);
    const auto most = bound_of(call, 4);
    return least && most ? std::optional(Scores{.least = *least, .most = *most}) : std::nullopt;
}

int push_ok(Call &call) {
    lua_getfield(call.lua, LUA_REGISTRYINDEX, "replay.ok");
    return 1;
}

int set(Call &call) {
    const bool has_expiry = call.words() == 5 && call.word(4) == "PX";
    if (call.words() != 3 && !has_expiry) {
        return call.fail(no_syntax);
    }
    const auto expiry = has_expiry ? call.whole(5) : std::nullopt;
    if (has_expiry && (!expiry || *expiry <= 0)) {
        return call.fail("ERR invalid expire time in 'set' command");
    }
    call.keys.make(call.key()) = std::string(call.word(3));
    if (has_expiry) {
        call.keys.expire_in(call.key(), *expiry);
    } else {
        call.keys.persist(call.key());
    }
    return push_ok(call);
}

int set_range(Call &call) {
    const auto offset = call.whole(3);
    if (!offset || *offset < 0) {
        return call.fail("ERR offset is out of range");
    }
    const std::string_view part = call.word(4);
    auto *text = call.find<std::string>();
    if (call.has_failed()) {
        return 0;
    }
    if (part.empty()) {
        return call.push(static_cast<int64_t>(text != nullptr ? text->size() : 0));
    }
    if (text == nullptr) {
        text = call.find_or_make<std::string>();
    }
    const auto at = static_cast<size_t>(*offset);
    text->resize(std::max(text->size(), at + part.size()));
    text->replace(at, part.size(), part);
    return call.push(static_cast<int64_t>(text->size()));
}

int remove_keys(Call &call) {
    int64_t removed = 0;
    for (int i = 2; i <= call.words(); ++i) {
        removed += call.keys.remove(call.word(i)) ? 1 : 0;
    }
    return call.push(removed);
}

int expire(Call &call) {
    const auto time = call.whole(3);
    if (!time) {
        return call.fail(no_number);
    }
    if (call.keys.find(call.key()) == nullptr) {
        return call.push(int64_t{0});
    }
    if (*time <= 0) {
        call.keys.remove(call.key());
    } else {
        call.keys.expire_in(call.key(), *time);
    }
    return call.push(int64_t{1});
}

int list_index(Call &call) {
    const auto *list = call.find<NumberList>();
    if (list == nullptr) {
        return call.has_failed() ? 0 : call.push_nil();
    }
    const auto index = call.whole(3);
    if (!index) {
        return call.fail(no_number);
    }
    const auto size = static_cast<int64_t>(list->size());
    const int64_t at = *index < 0 ? *index + size : *index;
    if (at < 0 || at >= size) {
        return call.push_nil();
    }
    return call.push_as_text(list->at(static_cast<size_t>(at)));
}

int list_range(Call &call) {
    const auto *list = call.find<NumberList>();
    if (call.has_failed()) {
        return 0;
    }
    const auto places = places_of(call, list != nullptr ? list->size() : 0);
    if (!places) {
        return call.fail(no_number);
    }
    lua_newtable(call.lua);
    for (int64_t i = places->first; i < places->end; ++i) {
        call.push_as_text(list->at(static_cast<size_t>(i)));
        lua_rawseti(call.lua, -2, static_cast<int>(i - places->first) + 1);
    }
    return 1;
}

int list_length(Call &call) {
    const auto *list = call.find<NumberList>();
    return call.push(static_cast<int64_t>(list != nullptr ? list->size() : 0));
}

int list_trim(Call &call) {
    auto *list = call.find<NumberList>();
    if (call.has_failed()) {
        return 0;
    }
    const auto places = places_of(call, list != nullptr ? list->size() : 0);
    if (!places) {
        return call.fail(no_number);
    }
    if (list == nullptr) {
        return push_ok(call);
    }
    if (places->first >= places->end) {
        call.keys.remove(call.key());
    } else {
        list->trim(static_cast<size_t>(places->first), static_cast<size_t>(places->end));
    }
    return push_ok(call);
}

int list_push(Call &call) {
    for (int i = 3; i <= call.words(); ++i) {
        const auto number = call.whole(i);
        std::array<char, 32> out;
        if (!number || (!call.is_whole_number(i) &&
                        Call::write(static_cast<double>(*number), out) != call.word(i))) {
            return call.fail("ERR this list takes whole numbers only");
        }
    }
    auto *list = call.find_or_make<NumberList>();
    if (list == nullptr) {
        return 0;
    }
    for (int i = 3; i <= call.words(); ++i) {
        list->push(*call.whole(i));
    }
    return call.push(static_cast<int64_t>(list->size()));
}

/// Takes a negative count alone: from the end of the list.
int list_remove(Call &call) {
    const auto count = call.whole(3);
    const auto number = call.whole(4);
    if (!count || *count >= 0 || !number) {
        return call.fail(no_number);
    }
    auto *list = call.find<NumberList>();
    if (list == nullptr) {
        return call.has_failed() ? 0 : call.push(int64_t{0});
    }
    const size_t removed = list->remove_last(*number, static_cast<size_t>(-*count));
    if (list->size() == 0) {
        call.keys.remove(call.key());
    }
    return call.push(static_cast<int64_t>(removed));
}

/// Removes the key if its set is empty, as Redis does.
void remove_if_empty(Call &call, const SortedSet &set) {
    if (set.elements().empty()) {
        call.keys.remove(call.key());
    }
}

int set_add(Call &call) {
    const bool only_known = call.word(3) == "XX";
    const int first = only_known ? 4 : 3;
    if ((call.words() - first) % 2 == 0) {
        return call.fail(no_syntax);
    }
    for (int i = first; i < call.words(); i += 2) {
        if (!call.score(i)) {
            return call.fail(no_score);
        }
    }
    auto *set = only_known ? call.find<SortedSet>() : call.find_or_make<SortedSet>();
    int64_t added = 0;
    for (int i = first; set != nullptr && i < call.words(); i += 2) {
        if (!only_known || set->score(call.word(i + 1)) != nullptr) {
            added += set->set(call.word(i + 1), *call.score(i)) ? 1 : 0;
        }
    }
    return call.has_failed() ? 0 : call.push(added);
}

int set_remove(Call &call) {
    auto *set = call.find<SortedSet>();
    int64_t removed = 0;
    for (int i = 3; set != nullptr && i <= call.words(); ++i) {
        removed += set->remove(call.word(i)) ? 1 : 0;
    }
    if (set != nullptr) {
        remove_if_empty(call, *set);
    }
    return call.has_failed() ? 0 : call.push(removed);
}

int set_size(Call &call) {
    const auto *set = call.find<SortedSet>();
    return call.push(static_cast<int64_t>(set != nullptr ? set->elements().size() : 0));
}

int set_increase(Call &call) {
    const auto by = call.score(3);
    if (!by) {
        return call.fail(no_score);
    }
    auto *set = call.find_or_make<SortedSet>();
    if (set == nullptr) {
        return 0;
    }
    const double *before = set->score(call.word(4));
    const double after = (before != nullptr ? *before : 0) + *by;
    set->set(call.word(4), after);
    call.push_score(after);
    return 1;
}

int set_range_by_rank(Call &call) {
    bool is_backwards = false;
    bool has_scores = false;
    for (int i = 5; i <= call.words(); ++i) {
        is_backwards = is_backwards || call.word(i) == "REV";
        has_scores = has_scores || call.word(i) == "WITHSCORES";
    }
    if (call.words() != 4 + (is_backwards ? 1 : 0) + (has_scores ? 1 : 0)) {
        return call.fail(no_syntax);
    }
    const auto *set = call.find<SortedSet>();
    if (call.has_failed()) {
        return 0;
    }
    const auto places = places_of(call, set != nullptr ? set->elements().size() : 0);
    if (!places) {
        return call.fail(no_number);
    }
    lua_newtable(call.lua);
    if (places->first >= places->end) {
        return 1;
    }
    int at = 0;
    const auto push = [&](const SortedSet::Element &element) {
        call.push(element.second);
        lua_rawseti(call.lua, -2, ++at);
        if (has_scores) {
            call.push_score(element.first);
            lua_rawseti(call.lua, -2, ++at);
        }
    };
    const auto size = places->end - places->first;
    if (is_backwards) {
        std::for_each_n(std::next(set->elements().rbegin(), places->first), size, push);
    } else {
        std::for_each_n(std::next(set->elements().begin(), places->first), size, push);
    }
    return 1;
}

int set_range_by_score(Call &call) {
    const auto scores = scores_of(call);
    if (!scores) {
        return call.fail(no_bounds);
    }
    const bool has_most = call.words() == 7 && call.word(5) == "LIMIT";
    const auto skipped = has_most ? call.whole(6) : std::optional<int64_t>(0);
    const auto most = has_most ? call.whole(7) : std::optional<int64_t>(INT64_MAX);
    if (!skipped || !most || *skipped != 0 || (call.words() != 4 && !has_most)) {
        return call.fail(no_syntax);
    }
    const auto *set = call.find<SortedSet>();
    lua_newtable(call.lua);
    if (set == nullptr) {
        return call.has_failed() ? 0 : 1;
    }
    int at = 0;
    for (auto element = scores->first_of(*set); at < *most && scores->have(*set, element);
         ++element) {
        call.push(element->second);
        lua_rawseti(call.lua, -2, ++at);
    }
    return 1;
}

int set_remove_by_score(Call &call) {
    const auto scores = scores_of(call);
    if (!scores) {
        return call.fail(no_bounds);
    }
    auto *set = call.find<SortedSet>();
    int64_t removed = 0;
    while (set != nullptr) {
        const auto element = scores->first_of(*set);
        if (!scores->have(*set, element)) {
            break;
        }
        set->remove(std::string(element->second));
        ++removed;
    }
    if (set != nullptr) {
        remove_if_empty(call, *set);
    }
    return call.has_failed() ? 0 : call.push(removed);
}

int set_score(Call &call) {
    const auto *set = call.find<SortedSet>();
    const double *score = set != nullptr ? set->score(call.word(3)) : nullptr;
    if (score == nullptr) {
        return call.has_failed() ? 0 : call.push_nil();
    }
    call.push_score(*score);
    return 1;
}

int push_value(const Call &call, const Hash *hash, std::string_view name) {
    const std::string *value = hash != nullptr ? hash->find(name) : nullptr;
    return value != nullptr ? call.push(*value) : call.push_nil();
}

int hash_get(Call &call) {
    return push_value(call, call.find<Hash>(), call.word(3));
}

int hash_get_many(Call &call) {
    const auto *hash = call.find<Hash>();
    lua_newtable(call.lua);
    for (int i = 3; i <= call.words(); ++i) {
        push_value(call, hash, call.word(i));
        lua_rawseti(call.lua, -2, i - 2);
    }
    return call.has_failed() ? 0 : 1;
}

/// Makes a table of all names and values.
void push_fields(const Call &call, const Hash *hash) {
    lua_newtable(call.lua);
    int at = 0;
    if (hash == nullptr) {
        return;
    }
    for (const auto &[name, value] : hash->fields()) {
        call.push(name);
        lua_rawseti(call.lua, -2, ++at);
        call.push(value);
        lua_rawseti(call.lua, -2, ++at);
    }
}

int hash_get_all(Call &call) {
    push_fields(call, call.find<Hash>());
    return call.has_failed() ? 0 : 1;
}

/// All fields come at once, as those of a small hash do in Redis.
int hash_scan(Call &call) {
    const bool has_count = call.words() == 5 && call.word(4) == "COUNT" && call.whole(5);
    if (call.words() != 3 && !has_count) {
        return call.fail(no_syntax);
    }
    if (!call.whole(3)) {
        return call.fail("ERR invalid cursor");
    }
    const auto *hash = call.find<Hash>();
    lua_createtable(call.lua, 2, 0);
    call.push("0");
    lua_rawseti(call.lua, -2, 1);
    push_fields(call, hash);
    lua_rawseti(call.lua, -2, 2);
    return call.has_failed() ? 0 : 1;
}

int hash_set(Call &call) {
    if (call.words() % 2 != 0) {
        return call.fail("ERR wrong number of arguments for 'hset' command");
    }
    auto *hash = call.find_or_make<Hash>();
    int64_t added = 0;
    for (int i = 3; hash != nullptr && i < call.words(); i += 2) {
        added += hash->set(call.word(i), call.word(i + 1)) ? 1 : 0;
    }
    return call.has_failed() ? 0 : call.push(added);
}

int hash_remove(Call &call) {
    auto *hash = call.find<Hash>();
    int64_t removed = 0;
    for (int i = 3; hash != nullptr && i <= call.words(); ++i) {
        removed += hash->remove(call.word(i)) ? 1 : 0;
    }
    if (hash != nullptr && hash->fields().empty()) {
        call.keys.remove(call.key());
    }
    return call.has_failed() ? 0 : call.push(removed);
}

int hash_length(Call &call) {
    const auto *hash = call.find<Hash>();
    return call.push(static_cast<int64_t>(hash != nullptr ? hash->fields().size() : 0));
}

/// Scripts ask for the time once, and take it apart. Redis gives texts, of which they make numbers:
/// here they get numbers.
int time(Call &call) {
    const int64_t now = call.keys.now_us();
    lua_createtable(call.lua, 2, 0);
    const int64_t parts[] = {now / 1'000'000, now % 1'000'000};
    for (int i = 0; i < 2; ++i) {
        call.push(parts[i]);
        lua_rawseti(call.lua, -2, i + 1);
    }
    return 1;
}

/// What a command does to keys.
enum class Effect : uint8_t { grows, removes, reads };

constexpr struct {
    std::string_view name;
    int (*run)(Call &call); // returns the number of values on Lua's stack
    int fewest_words;
    Effect effect = Effect::grows;
} commands[] = {
    {"TIME", time, 1, Effect::reads},
    {"GET", get, 2, Effect::reads},
    {"SET", set, 3},
    {"SETRANGE", set_range, 4},
    {"LINDEX", list_index, 3, Effect::reads},
    {"LLEN", list_length, 2, Effect::reads},
    {"LRANGE", list_range, 4, Effect::reads},
    {"RPUSH", list_push, 3},
    {"LTRIM", list_trim, 4, Effect::removes},
    {"LREM", list_remove, 4, Effect::removes},
    {"PEXPIRE", expire, 3, Effect::removes},
    {"UNLINK", remove_keys, 2, Effect::removes},
    {"DEL", remove_keys, 2, Effect::removes},
    {"ZRANGE", set_range_by_rank, 4, Effect::reads},
    {"ZADD", set_add, 4},
    {"ZREM", set_remove, 3, Effect::removes},
    {"ZCARD", set_size, 2, Effect::reads},
    {"ZINCRBY", set_increase, 4},
    {"ZRANGEBYSCORE", set_range_by_score, 4, Effect::reads},
    {"ZREMRANGEBYSCORE", set_remove_by_score, 4, Effect::removes},
    {"ZSCORE", set_score, 3, Effect::reads},
    {"HGET", hash_get, 3, Effect::reads},
    {"HMGET", hash_get_many, 3, Effect::reads},
    {"HGETALL", hash_get_all, 2, Effect::reads},
    {"HSCAN", hash_scan, 3, Effect::reads},
    {"HSET", hash_set, 4, Effect::grows},
    {"HDEL", hash_remove, 3, Effect::removes},
    {"HLEN", hash_length, 2, Effect::reads},
};

/// Returns the number of values on Lua's stack, or sets `error`.
int run_command(lua_State *lua, const char *&error) {
    Call call(lua, *static_cast<KeyStore *>(lua_touserdata(lua, lua_upvalueindex(1))));
    const std::string_view name = call.words() > 0 ? call.word(1) : std::string_view();
    const auto *command =
        std::ranges::find(commands, name, [](const auto &one) { return one.name; });
    if (command == std::end(commands) || call.words() < command->fewest_words) {
        error = "ERR a command that no script of ours uses";
        return 0;
    }
    const Refusal &refusal = call.keys.refusal();
    if (refusal.error != nullptr && command->effect != Effect::reads &&
        !(refusal.takes_removals && command->effect == Effect::removes)) {
        error = refusal.error;
        return 0;
    }
    const int count = command->run(call);
    error = call.error();
    return count;
}

/// lua_error() leaves the function at once, so nothing that has a destructor may be alive there.
int call_redis(lua_State *lua) {
    const char *error = nullptr;
    const int count = run_command(lua, error);
    return error != nullptr ? luaL_error(lua, "%s", error) : count;
}

/// As redis.pcall(): an error becomes a table that has it.
int pcall_redis(lua_State *lua) {
    const char *error = nullptr;
    const int count = run_command(lua, error);
    if (error == nullptr) {
        return count;
    }
    lua_newtable(lua);
    lua_pushstring(lua, error);
    lua_setfield(lua, -2, "err");
    return 1;
}

/// A format of struct: `<`, and then `d` or `i8`, 8 bytes each. Returns nothing for others.
enum class Number { floating, whole };

bool take_number(const char *&format, Number &number) {
    if (format[0] == 'd') {
        number = Number::floating;
        format += 1;
        return true;
    }
    if (format[0] == 'i' && format[1] == '8') {
        number = Number::whole;
        format += 2;
        return true;
    }
    return false;
}

constexpr size_t most_numbers = 128; // of one call; a check of 12 rules replies with fewer

int pack(lua_State *lua) {
    std::array<char, most_numbers * 8> out;
    const char *format = luaL_checkstring(lua, 1);
    format += format[0] == '<' ? 1 : 0;
    size_t size = 0;
    for (int argument = 2; *format != '\0'; ++argument) {
        Number kind{};
        if (size == out.size() || !take_number(format, kind)) {
            return luaL_error(lua, "a format of struct.pack that no script of ours uses");
        }
        const double number = luaL_checknumber(lua, argument);
        if (kind == Number::floating) {
            std::memcpy(out.data() + size, &number, 8);
        } else {
            const auto whole = static_cast<int64_t>(number);
            std::memcpy(out.data() + size, &whole, 8);
        }
        size += 8;
    }
    lua_pushlstring(lua, out.data(), size);
    return 1;
}

int unpack(lua_State *lua) {
    const char *format = luaL_checkstring(lua, 1);
    size_t size = 0;
    const char *bytes = luaL_checklstring(lua, 2, &size);
    auto at = static_cast<size_t>(luaL_optinteger(lua, 3, 1)) - 1;
    format += format[0] == '<' ? 1 : 0;
    int count = 0;
    while (*format != '\0') {
        Number kind{};
        if (!take_number(format, kind)) {
            return luaL_error(lua, "a format of struct.unpack that no script of ours uses");
        }
        if (at + 8 > size) {
            return luaL_error(lua, "data string too short");
        }
        double number = 0;
        if (kind == Number::floating) {
            std::memcpy(&number, bytes + at, 8);
        } else {
            int64_t whole = 0;
            std::memcpy(&whole, bytes + at, 8);
            number = static_cast<double>(whole);
        }
        luaL_checkstack(lua, 2, "too many numbers");
        lua_pushnumber(lua, number);
        at += 8;
        ++count;
    }
    lua_pushinteger(lua, static_cast<lua_Integer>(at + 1));
    return count + 1;
}

} // namespace

void register_commands(lua_State *lua, KeyStore &keys) {
    lua_newtable(lua);
    lua_pushliteral(lua, "OK");
    lua_setfield(lua, -2, "ok");
    lua_setfield(lua, LUA_REGISTRYINDEX, "replay.ok");

    lua_newtable(lua);
    lua_pushlightuserdata(lua, &keys);
    lua_pushcclosure(lua, call_redis, 1);
    lua_setfield(lua, -2, "call");
    lua_pushlightuserdata(lua, &keys);
    lua_pushcclosure(lua, pcall_redis, 1);
    lua_setfield(lua, -2, "pcall");
    lua_setglobal(lua, "redis");

    lua_newtable(lua);
    lua_pushcfunction(lua, pack);
    lua_setfield(lua, -2, "pack");
    lua_pushcfunction(lua, unpack);
    lua_setfield(lua, -2, "unpack");
    lua_setglobal(lua, "struct");
}

} // namespace replay
