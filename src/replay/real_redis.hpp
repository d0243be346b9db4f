// Runs the scripts in a real Redis, with the time of the log in the place of Redis's own.
//
// Redis still expires keys by its own clock. Scripts do not depend on that, but a log that is
// replayed more slowly than it was written would lose state.
#pragma once

#include "redis.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

struct redisContext;
struct redisReply;

namespace replay {

class RealRedis : public Redis {
  public:
    /// Connects to `host:port`. Returns null, and says why in `error`.
    static std::unique_ptr<RealRedis> connect(std::string_view address, std::string &error);

    Answer run(std::string_view command, int64_t now_us) override;

  private:
    struct Close {
        void operator()(redisContext *connection) const;
        void operator()(redisReply *reply) const;
    };

    const std::string &with_time_of_caller(std::string_view command, std::string_view script);

    std::unique_ptr<redisContext, Close> connection_;
    std::unique_ptr<redisReply, Close> reply_;             // of the last command
    std::unordered_map<std::string, std::string> scripts_; // the text that is sent, by SHA-1
};

} // namespace replay
