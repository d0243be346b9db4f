#include "real_redis.hpp"

#include "../redis_client/script.hpp"
#include "command_words.hpp"

#include <hiredis/hiredis.h>

#include <charconv>
#include <cstdlib>
#include <vector>

namespace replay {

namespace {

constexpr std::string_view time_of_redis = "call('TIME')";
constexpr std::string_view time_of_caller = "{ARGV[#ARGV - 1], ARGV[#ARGV]}";

} // namespace

void RealRedis::Close::operator()(redisContext *connection) const {
    redisFree(connection);
}

void RealRedis::Close::operator()(redisReply *reply) const {
    freeReplyObject(reply);
}

std::unique_ptr<RealRedis> RealRedis::connect(std::string_view address, std::string &error) {
    const size_t colon = address.rfind(':');
    int port = 0;
    if (colon != std::string_view::npos) {
        std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
    }
    if (port <= 0 || port > UINT16_MAX) {
        error = "expected host:port";
        return nullptr;
    }
    auto redis = std::make_unique<RealRedis>();
    redis->connection_.reset(redisConnect(std::string(address.substr(0, colon)).c_str(), port));
    if (!redis->connection_ || redis->connection_->err != 0) {
        error = redis->connection_ ? redis->connection_->errstr : "no memory";
        return nullptr;
    }
    return redis;
}

/// Returns the script's text with the time of the caller. A script that is named was sent before.
const std::string &RealRedis::with_time_of_caller(std::string_view command,
                                                  std::string_view script) {
    std::string name(script);
    if (command == "EVAL") {
        name = redis_client::Script(name).sha1;
        std::string text(script);
        const size_t at = text.find(time_of_redis);
        if (at != std::string::npos) {
            text.replace(at, time_of_redis.size(), time_of_caller);
        }
        scripts_.try_emplace(name, std::move(text));
    }
    return scripts_[name];
}

Answer RealRedis::run(std::string_view command, int64_t now_us) {
    take_count(command);
    const std::string_view name = take_word(command);
    const std::string &script = with_time_of_caller(name, take_word(command));
    const std::string time[] = {std::to_string(now_us / 1'000'000),
                                std::to_string(now_us % 1'000'000)};
    std::vector<std::string_view> words = {"EVAL", script};
    while (!command.empty()) {
        words.push_back(take_word(command));
    }
    words.insert(words.end(), std::begin(time), std::end(time));
    std::vector<const char *> texts;
    std::vector<size_t> sizes;
    for (const std::string_view word : words) {
        texts.push_back(word.data());
        sizes.push_back(word.size());
    }
    reply_.reset(static_cast<redisReply *>(redisCommandArgv(
        connection_.get(), static_cast<int>(texts.size()), texts.data(), sizes.data())));
    if (!reply_) {
        return {.type = Answer::Type::error, .text = connection_->errstr};
    }
    Answer answer;
    answer.number = reply_->integer;
    answer.text = {reply_->str != nullptr ? reply_->str : "", reply_->len};
    switch (reply_->type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
        answer.type = Answer::Type::text;
        break;
    case REDIS_REPLY_INTEGER:
        answer.type = Answer::Type::number;
        break;
    case REDIS_REPLY_ERROR:
        answer.type = Answer::Type::error;
        break;
    default:
        answer.type = Answer::Type::nil;
    }
    return answer;
}

} // namespace replay
