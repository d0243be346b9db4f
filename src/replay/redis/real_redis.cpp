#include "replay/redis/real_redis.hpp"

#include "rate_limit/text/times_and_numbers.hpp"
#include "redis_client/script/script.hpp"
#include "replay/syntax/command_words.hpp"

#include <hiredis/hiredis.h>

#include <optional>
#include <utility>

namespace replay {

namespace {

/// Stands before each script. The time is the log's, and runs otherwise than the clock by which the
/// server lets keys expire: they last until the replay has ended. What they hold has times of its
/// own, by which the scripts tell what still counts.
constexpr std::string_view on_time_of_log = R"(
local server = redis
local lasting = 604800000 -- milliseconds
local function changed(run)
    return function(command, ...)
        local words = {...}
        if command == 'TIME' then
            return {ARGV[#ARGV - 1], ARGV[#ARGV]}
        elseif command == 'PEXPIRE' then
            words[2] = math.max(words[2], lasting)
        elseif command == 'SET' and words[3] == 'PX' then
            words[4] = math.max(words[4], lasting)
        end
        return run(command, unpack(words))
    end
end
local redis = setmetatable({call = changed(server.call), pcall = changed(server.pcall)}, {__index = server})
)";

/// Takes the port off an address, and the brackets off one of IPv6.
std::optional<int> take_port(std::string_view &address) {
    const size_t colon = address.rfind(':');
    if (colon == std::string_view::npos) {
        return std::nullopt;
    }
    const auto port = rate_limit::parse_whole_number(address.substr(colon + 1), UINT16_MAX);
    address = address.substr(0, colon);
    if (address.starts_with('[') && address.ends_with(']')) {
        address = address.substr(1, address.size() - 2);
    }
    return port && *port > 0 ? std::optional(static_cast<int>(*port)) : std::nullopt;
}

} // namespace

void RealRedis::Close::operator()(redisContext *connection) const {
    redisFree(connection);
}

void RealRedis::Close::operator()(redisReply *reply) const {
    freeReplyObject(reply);
}

std::unique_ptr<RealRedis> RealRedis::connect(std::string_view address, std::string_view prefix,
                                              std::string &error) {
    const auto port = take_port(address);
    if (!port) {
        error = "expected host:port, or [address]:port";
        return nullptr;
    }
    auto redis = std::make_unique<RealRedis>();
    redis->prefix_ = prefix;
    redis->connection_.reset(redisConnect(std::string(address).c_str(), *port));
    if (!redis->connection_ || redis->connection_->err != 0) {
        error = redis->connection_ ? redis->connection_->errstr : "no memory";
        return nullptr;
    }
    return redis;
}

RealRedis::~RealRedis() {
    if (connection_ && connection_->err == 0) {
        remove_keys();
    }
}

/// Removes the keys of this replay. What cannot be removed expires.
void RealRedis::remove_keys() {
    std::string cursor = "0";
    do {
        reply_.reset(static_cast<redisReply *>(redisCommand(
            connection_.get(), "SCAN %s MATCH %s* COUNT 1000", cursor.c_str(), prefix_.c_str())));
        if (!reply_ || reply_->type != REDIS_REPLY_ARRAY || reply_->elements != 2) {
            return;
        }
        cursor = reply_->element[0]->str;
        std::vector<std::string_view> words = {"UNLINK"};
        const redisReply &keys = *reply_->element[1];
        for (size_t i = 0; i < keys.elements; ++i) {
            words.emplace_back(keys.element[i]->str, keys.element[i]->len);
        }
        if (words.size() > 1 && !send(words)) {
            return;
        }
    } while (cursor != "0");
}

/// Returns the script's text, on the time of the log. A script that is named was sent before.
const std::string &RealRedis::script(std::string_view command, std::string_view text_or_name) {
    std::string name(text_or_name);
    if (command == "EVAL") {
        name = redis_client::Script(name).sha1;
        scripts_.try_emplace(name, std::string(on_time_of_log) + std::string(text_or_name));
    }
    return scripts_[name];
}

/// Returns the reply, which holds until the next command, or null if the connection failed.
const redisReply *RealRedis::send(const std::vector<std::string_view> &words) {
    std::vector<const char *> texts;
    std::vector<size_t> sizes;
    for (const std::string_view word : words) {
        texts.push_back(word.data());
        sizes.push_back(word.size());
    }
    const Reply earlier = std::move(reply_); // words may be of it
    reply_.reset(static_cast<redisReply *>(redisCommandArgv(
        connection_.get(), static_cast<int>(texts.size()), texts.data(), sizes.data())));
    return reply_.get();
}

Answer RealRedis::run(std::string_view command, int64_t now_us) {
    take_count(command);
    const std::string_view name = take_word(command);
    const std::string &text = script(name, take_word(command));
    const std::string time[] = {std::to_string(now_us / 1'000'000),
                                std::to_string(now_us % 1'000'000)};
    std::vector<std::string_view> words = {"EVAL", text};
    while (!command.empty()) {
        words.push_back(take_word(command));
    }
    words.insert(words.end(), std::begin(time), std::end(time));
    if (send(words) == nullptr) {
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
