// Runs the scripts in a real Redis, with the time of the log in the place of Redis's own.
//
// Keys last longer than the replay, and are removed at its end: a server that lets them expire by
// its own clock would forget what still counts by the log's.
#pragma once

#include "replay/redis/redis.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

struct redisContext;
struct redisReply;

namespace replay {

class RealRedis : public Redis {
  public:
    /// Connects to `host:port`. All keys begin with the prefix. Returns null, and says why in
    /// `error`.
    static std::unique_ptr<RealRedis> connect(std::string_view address, std::string_view prefix,
                                              std::string &error);
    RealRedis() = default;
    RealRedis(const RealRedis &) = delete;
    RealRedis &operator=(const RealRedis &) = delete;
    ~RealRedis() override;

    Answer run(std::string_view command, int64_t now_us) override;

  private:
    struct Close {
        void operator()(redisContext *connection) const;
        void operator()(redisReply *reply) const;
    };

    using Reply = std::unique_ptr<redisReply, Close>;

    const std::string &script(std::string_view command, std::string_view text_or_name);
    const redisReply *send(const std::vector<std::string_view> &words);
    void remove_keys();

    std::string prefix_;
    std::unique_ptr<redisContext, Close> connection_;
    Reply reply_;                                          // of the last command
    std::unordered_map<std::string, std::string> scripts_; // the text that is sent, by SHA-1
};

} // namespace replay
