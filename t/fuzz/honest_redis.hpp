// A Redis that answers the commands of a session as our scripts would: each check hears of its own
// key. It denies, and fails, where it is told to.
#pragma once

#include "input.hpp"
#include "unit/redis_client/session/session_test.hpp"

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

/// What checks ask in the tests: the rules of all algorithms, alone and together.
struct Question {
    std::vector<redis_client::Asked> rules; // without keys
    std::vector<redis_client::WireWords> arguments;
    redis_client::ScriptShape shape;
};
const std::vector<Question> &questions();

/// Whether a command is a check, or a batch of them.
bool is_check(const redis_client::WireCommand &command);

/// How many keys a check has: a rule that blocks has two.
size_t keys_of(const Question &question);

/// Of which a granted check has so many units left: each key has a number of its own.
std::string key_of(const redis_client::Quota &quota, uint64_t number);
uint64_t number_in(std::string_view redis_key);

/// What Redis says instead of an answer.
inline constexpr std::string_view other_replies[] = {
    "-NOSCRIPT No matching script. Please use EVAL.\r\n",
    "-CROSSSLOT Keys in request don't hash to the same slot\r\n",
    "-READONLY You can't write against a read only replica.\r\n",
    "-ERR Error running script: @user_script:1: -READONLY You can't write\r\n",
    "-LOADING Redis is loading the dataset in memory\r\n",
    "-BUSY Redis is busy running a script.\r\n",
    "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "-NOAUTH Authentication required.\r\n",
    "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
    "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
    "-MOVED 3999 127.0.0.1:6381\r\n",
    "-MOVED 3999 :6381\r\n",
    "-ASK 3999 127.0.0.1:6381\r\n",
    "-MO\r\n",
    "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
    "-CLUSTERDOWN The cluster is down\r\n",
    "-ERR max number of clients reached\r\n",
    "-\r\n",
    "+OK\r\n",
    ":1\r\n",
    "$-1\r\n",
    "$0\r\n\r\n",
    "*-1\r\n",
    "*0\r\n",
    "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:6379\r\n$9\r\nconnected\r\n:0\r\n",
};

/// What others say that take themselves for Redis.
inline constexpr std::string_view no_replies[] = {
    "*4294967295\r\n",
    "$536870912\r\n",
    "HTTP/1.1 400 Bad Request\r\n",
};

class HonestRedis {
  public:
    void connected();

    /// Whole commands.
    void take(std::string_view bytes);
    bool has_commands() const { return !commands_.empty(); }
    /// The oldest one; null where there is none.
    const redis_client::WireCommand *next() const {
        return commands_.empty() ? nullptr : &commands_.front();
    }

    /// The name of the command that was answered last, on this connection.
    const std::string &answered() const { return answered_; }

    /// To the oldest command; nothing where there is none.
    std::string answer(Input &input);

    /// The same, with this instead.
    std::string answer_with(std::string_view reply);

    /// Of checks that came with their script, ever.
    size_t keys_in_full() const { return keys_in_full_; }

  private:
    redis_client::WireCommand take_next();

    std::deque<redis_client::WireCommand> commands_;
    std::string answered_;
    size_t keys_in_full_ = 0;
};

} // namespace fuzz
