// The scripts in the replay's LuaJIT answer and keep what they do in Redis, command by command and
// on random schedules, on a clock that the test moves.

#include "redis.hpp"
#include "traffic.hpp"

#include "redis_client/script/arguments.hpp"
#include "redis_client/script/script.hpp"
#include "replay/redis/embedded_redis.hpp"
#include "unit/rate_limit/algorithms.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace model {
namespace {

/// Writes a reply as it stands in RESP.
std::string resp_of(redis_client::ReplyView reply) {
    if (const auto number = reply.number()) {
        return ":" + std::to_string(*number) + "\r\n";
    }
    if (const auto text = reply.text()) {
        return "$" + std::to_string(text->size()) + "\r\n" + std::string(*text) + "\r\n";
    }
    if (reply.is_empty()) {
        return "$-1\r\n";
    }
    std::string list = "*" + std::to_string(reply.size()) + "\r\n";
    for (size_t i = 0; i < reply.size(); ++i) {
        list += resp_of(reply[i]);
    }
    return list;
}

std::string resp_of(const replay::Answer &answer) {
    using Type = replay::Answer::Type;
    switch (answer.type) {
    case Type::number:
        return ":" + std::to_string(answer.number) + "\r\n";
    case Type::text:
        return "$" + std::to_string(answer.text.size()) + "\r\n" + std::string(answer.text) +
               "\r\n";
    case Type::nil:
        return "$-1\r\n";
    case Type::error:
    case Type::list:
        break;
    }
    return std::string(answer.text);
}

/// The embedded Redis beside a real one, on the same clock.
class Both {
  public:
    /// Runs a script of our own with these words as KEYS and ARGV.
    void eval(const std::string &script, const std::vector<std::string> &keys,
              const std::vector<std::string> &arguments) {
        std::vector<std::string> words = {"EVAL", script, std::to_string(keys.size())};
        words.insert(words.end(), keys.begin(), keys.end());
        words.insert(words.end(), arguments.begin(), arguments.end());
        std::string command = "*" + std::to_string(words.size()) + "\r\n";
        for (const std::string &word : words) {
            command += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
        }
        const replay::Answer ours = embedded_.run(command, clock.now());
        const Redis::Answer theirs = redis.command(words);
        const bool is_error = ours.type == replay::Answer::Type::error;
        EXPECT_EQ(is_error, theirs.is_error())
            << script << ": " << ours.text << " | " << theirs.text;
        if (!is_error) {
            EXPECT_EQ(std::string(ours.text), theirs.text) << script;
            EXPECT_EQ(ours.number, theirs.number) << script;
        }
    }

    /// Runs a command of a client in both, and compares the replies.
    void ask(const redis_client::ByteQueue &command) {
        const replay::Answer ours = embedded_.run(command.bytes(), clock.now());
        redis.ask(command, [&](redis_client::ReplyView theirs) {
            EXPECT_EQ(resp_of(ours), resp_of(theirs)) << command.bytes();
        });
    }

    /// Compares what is kept under a key: whether it is there, and for how long.
    void look(std::string_view key) {
        embedded_.keys().set_now(clock.now());
        EXPECT_EQ(embedded_.keys().time_to_live_ms(key), redis.time_to_live_ms(key)) << key;
    }

    Clock clock;
    Redis redis;

  private:
    replay::EmbeddedRedis embedded_;
};

/// Calls a command with KEYS[1] and ARGV, and returns a text of whatever it returns.
std::string call_of(const std::string &command) {
    return "local function text(value)\n"
           "  if type(value) ~= 'table' then return type(value) .. ':' .. tostring(value) end\n"
           "  local all = {}\n"
           "  for i, each in ipairs(value) do all[i] = text(each) end\n"
           "  return 'table:' .. tostring(value.ok) .. '(' .. table.concat(all, ',') .. ')'\n"
           "end\n"
           "return text(redis.call('" +
           command + "', KEYS[1], unpack(ARGV)))";
}

TEST(Replay, CommandsDoWhatTheyDoInRedis) {
    struct Command {
        std::string name;
        std::vector<std::vector<std::string>> arguments;
    };
    const std::vector<Command> commands = {
        {"GET", {{}}},
        {"SET",
         {{"some text"}, {"other", "PX", "60"}, {"", "PX", "5000"}, {"x", "PX", "0"}, {"x", "EX"}}},
        {"SETRANGE", {{"0", "abc"}, {"8", "xy"}, {"3", ""}, {"-1", "x"}}},
        {"LINDEX", {{"0"}, {"1"}, {"-1"}, {"-3"}, {"7"}, {"x"}}},
        {"LLEN", {{}}},
        {"RPUSH", {{"1700000000000000"}, {"1", "2", "3"}, {"-5"}}},
        {"LTRIM", {{"1", "-1"}, {"0", "1"}, {"2", "1"}, {"-2", "-1"}, {"9", "-1"}}},
        {"LRANGE", {{"0", "-1"}, {"-2", "-1"}, {"1", "5"}, {"4", "1"}}},
        {"LREM", {{"-1", "2"}, {"-2", "1700000000000000"}, {"-9", "3"}}},
        {"PEXPIRE", {{"40"}, {"7000"}, {"0"}, {"x"}}},
        {"DEL", {{}}},
        {"UNLINK", {{}}},
        {"ZADD",
         {{"3", "a"},
          {"-2", ""},
          {"1700000000000000", "b", "5", "c"},
          {"XX", "9", "a"},
          {"XX", "9", "nobody"},
          {"x", "a"}}},
        {"ZREM", {{"a"}, {"nobody"}, {"a", "b", "c", ""}}},
        {"ZCARD", {{}}},
        {"ZINCRBY", {{"4", "a"}, {"-1", ""}, {"x", "a"}}},
        {"ZRANGE",
         {{"0", "1", "WITHSCORES"},
          {"0", "-1", "WITHSCORES"},
          {"5", "9", "WITHSCORES"},
          {"0", "0", "REV", "WITHSCORES"},
          {"0", "-1", "REV"},
          {"1", "2"},
          {"0", "-1", "NONSENSE"}}},
        {"ZRANGEBYSCORE",
         {{"0", "10"},
          {"-10", "1700000000000000"},
          {"(3", "+inf", "LIMIT", "0", "2"},
          {"-inf", "(5", "LIMIT", "0", "100"},
          {"-inf", "3", "LIMIT", "0", "0"},
          {"(x", "5"}}},
        {"ZREMRANGEBYSCORE", {{"0", "4"}, {"5", "1700000000000000"}, {"(-2", "(3"}}},
        {"ZSCORE", {{"a"}, {""}, {"nobody"}}},
        {"HSET", {{"a", "1"}, {"b", "2", "", "empty"}, {"a", "3", "a", "4"}, {"a"}}},
        {"HGET", {{"a"}, {""}, {"nobody"}}},
        {"HMGET", {{"a", "nobody", "b"}, {""}}},
        {"HGETALL", {{}}},
        {"HLEN", {{}}},
        {"HDEL", {{"a"}, {"nobody"}, {"a", "b", ""}}},
        {"HSCAN", {{"0"}, {"0", "COUNT", "100"}, {"x"}}},
    };
    Both both;
    std::mt19937_64 random(static_cast<uint64_t>(std::atoll(std::getenv("RATE_LIMIT_SEED"))));
    const std::vector<std::string> keys = {"a", "b", "c"};
    for (int i = 0; i < 5000 && !testing::Test::HasFailure(); ++i) {
        both.clock.move(static_cast<int64_t>(random() % 20000));
        const Command &command = commands[random() % commands.size()];
        const std::string &key = keys[random() % keys.size()];
        both.eval(call_of(command.name), {key},
                  command.arguments[random() % command.arguments.size()]);
        both.look(key);
    }
}

TEST(Replay, TablesAndPlainCommandsAreListsAsInRedis) {
    Both both;
    both.clock.move(123'456);
    const auto ask = [&](std::initializer_list<std::string_view> words) {
        redis_client::ByteQueue command;
        redis_client::write_command(command, words);
        both.ask(command);
    };
    ask({"EVAL", "return {1, 'two', false, {3.7, 'x'}, nil, 5}", "0"});
    ask({"HSET", "h", "b", "1", "a", "2"});
    ask({"HGETALL", "h"});
    ask({"HMGET", "h", "a", "nobody"});
    ask({"HLEN", "h"});
    ask({"GET", "nobody"});
    ask({"ZADD", "z", "3", "c", "-1", "d"});
    ask({"ZRANGE", "z", "0", "-1", "REV", "WITHSCORES"});
    ask({"TIME"});
    ask({"UNLINK", "h", "z", "nobody"});
}

TEST(Replay, StructPacksAsInRedis) {
    Both both;
    for (const char *script :
         {"return struct.pack('<ddd', 1, 0.5, '7')",
          "return struct.pack('<i8i8', -1, 9007199254740992)", "return struct.pack('<i8', -2.7)",
          "return struct.pack('<i8', 2.7)",
          "local a, b, at = struct.unpack('<dd', struct.pack('<dd', 3, 1e300)); return a .. ' ' .. "
          "b .. ' ' .. at",
          "return tostring((struct.unpack('<d', struct.pack('<ddd', 1, 2, 3), 17)))",
          "return struct.unpack('<dd', 'too short')",
          "return redis.call('TIME')[1] .. '.' .. redis.call('TIME')[2]",
          "return type(redis.pcall('LLEN', KEYS[1]))", "return redis.call('NONSENSE', 'x')"}) {
        both.eval(script, {"k"}, {});
    }
}

/// Checks, debts and refunds of an algorithm at random times, in both.
class RandomSchedule {
  public:
    explicit RandomSchedule(rate_limit::Algorithm algorithm)
        : quota_(traffic_.small_quota(algorithm)) {}

    void run(int steps) {
        redis_client::ScriptShape shape;
        shape.add({.algorithm = quota_.algorithm});
        const redis_client::Script check = redis_client::check_script(shape);
        for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
            both_.clock.move(traffic_.step(quota_, last_));
            quota_.cost = traffic_.cost(quota_, last_);
            send(check.source, words_of(redis_client::check_arguments(quota_, false)),
                 " of a check " + described(quota_));
            if (quota_.algorithm != rate_limit::Algorithm::concurrency && traffic_.one_in(4) &&
                quota_.cost > 0) { // nobody owes nothing
                const auto debt = redis_client::settlement_script(
                    quota_.algorithm, redis_client::SettlementKind::debt);
                send(debt.source, words_of(redis_client::debt_arguments(quota_, false)),
                     " of a debt");
            }
            if (quota_.algorithm != rate_limit::Algorithm::concurrency && traffic_.one_in(4) &&
                quota_.cost > 0) {
                const int64_t now = both_.clock.now();
                const redis_client::ChargeToReturn charge{
                    .receipt = now + moved_back() + traffic_.between(-100, 1'000'000),
                    .made = microseconds(now - traffic_.between(0, 1'000'000)),
                    .led_to = microseconds(now + traffic_.between(0, 1'000'000))};
                send(redis_client::settlement_script(quota_.algorithm,
                                                     redis_client::SettlementKind::refund)
                         .source,
                     words_of(redis_client::refund_arguments(quota_, charge)), " of a refund");
            }
        }
    }

  private:
    static std::vector<std::string> words_of(const redis_client::WireWords &wire) {
        std::vector<std::string> words;
        std::string_view rest = wire.bytes();
        while (!rest.empty()) {
            const size_t line = rest.find("\r\n");
            const size_t size = std::stoul(std::string(rest.substr(1, line - 1)));
            words.emplace_back(rest.substr(line + 2, size));
            rest.remove_prefix(line + 2 + size + 2);
        }
        return words;
    }

    void send(const std::string &script, std::vector<std::string> arguments,
              const std::string &what) {
        if (quota_.algorithm == rate_limit::Algorithm::concurrency) {
            arguments.push_back(std::to_string(++permits_) + " " + std::to_string(quota_.cost));
        }
        SCOPED_TRACE(std::string(to_string(quota_.algorithm)) + what);
        const bool keeps_past = rate_limit::is_bucket(quota_.algorithm) && what == " of a refund";
        both_.eval(script, keeps_past ? keys_ : std::vector{keys_.front()}, arguments);
        both_.look(keys_[0]);
        both_.look(keys_[1]);
    }

    /// The fourth number of a bucket's state.
    int64_t moved_back() {
        const Redis::Answer state = both_.redis.command({"GET", keys_.front()});
        double number = 0;
        if (rate_limit::is_bucket(quota_.algorithm) && state.text.size() >= 32) {
            std::memcpy(&number, state.text.data() + 24, sizeof(number));
        }
        return static_cast<int64_t>(number);
    }

    const std::vector<std::string> keys_ = {"k", "k#past"};
    Traffic traffic_;
    rate_limit::Quota quota_;
    rate_limit::Verdict last_;
    Both both_;
    int permits_ = 0;
};

TEST(Replay, GlobalVariablesFailAsInRedis) {
    Both both;
    for (const char *script :
         {"return nobody", "nobody = 1 return 1", "function nobody() end return 1",
          "if KEYS[1] == nil then return nobody end return 1", "local own = 1 return own",
          "return pcall(function() return nobody end) and 1 or 0"}) {
        both.eval(script, {"k"}, {});
    }
}

TEST(Replay, ScriptsDecideAsInRedis) {
    for (const rate_limit::Algorithm algorithm : rate_limit::all_algorithms) {
        for (int i = 0; i < 3 && !testing::Test::HasFailure(); ++i) {
            RandomSchedule(algorithm).run(400);
        }
    }
}

} // namespace
} // namespace model
