// Who runs the scripts: the program itself, or a real Redis. Either takes the commands that the
// module sends, and runs them at a time that the caller says.
#pragma once

#include "redis_client/wire/byte_queue.hpp"

#include <cstdint>
#include <string_view>

namespace replay {

struct Answer {
    enum class Type { text, number, nil, error, list };

    Type type = Type::nil;
    /// Of an error, too; a list as it stands in RESP. It holds until the next command.
    std::string_view text;
    int64_t number = 0;
};

class Redis {
  public:
    virtual ~Redis() = default;

    /// Runs an EVAL or EVALSHA in RESP at that time, in microseconds of Unix time. Time may step
    /// back.
    virtual Answer run(std::string_view command, int64_t now_us) = 0;
};

} // namespace replay
