// A Redis that answers the commands of a session as our scripts would: each check hears of its own
// key. It denies, and fails, where it is told to.
#pragma once

#include "input.hpp"
#include "unit/session_test.hpp"

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

/// Of which a granted check has so many units left: each key has a number of its own.
std::string key_of(const redis_client::Quota &quota, uint64_t number);
uint64_t number_in(std::string_view redis_key);

class HonestRedis {
  public:
    /// Whole commands.
    void take(std::string_view bytes);

    /// To the oldest command; nothing where there is none.
    std::string answer(Input &input);

    /// The same, with this instead.
    std::string answer_with(std::string_view reply);

  private:
    std::deque<redis_client::Command> commands_;
};

} // namespace fuzz
