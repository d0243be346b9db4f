#include "simulation/simulated_redis.hpp"

#include <charconv>
#include <optional>
#include <vector>

namespace simulation {

namespace {

/// Reads `*N` or `$N` and its line end at the front of `bytes`, which moves on. Returns nothing if
/// the line is not there as a whole.
std::optional<size_t> take_number(std::string_view &bytes) {
    const size_t end = bytes.find("\r\n");
    if (end == std::string_view::npos) {
        return std::nullopt;
    }
    size_t number = 0;
    std::from_chars(bytes.data() + 1, bytes.data() + end, number);
    bytes.remove_prefix(end + 2);
    return number;
}

/// Returns the words of the command at the front of `bytes`, which moves on; nothing if it is not
/// there as a whole.
std::optional<std::vector<std::string_view>> take_command(std::string_view &bytes) {
    std::string_view rest = bytes;
    const auto count = take_number(rest);
    if (!count) {
        return std::nullopt;
    }
    std::vector<std::string_view> words;
    for (size_t i = 0; i < *count; ++i) {
        const auto size = take_number(rest);
        if (!size || rest.size() < *size + 2) {
            return std::nullopt;
        }
        words.push_back(rest.substr(0, *size));
        rest.remove_prefix(*size + 2);
    }
    bytes = rest;
    return words;
}

std::string error(std::string_view text) {
    return "-" + std::string(text.substr(0, text.find_first_of("\r\n"))) + "\r\n";
}

std::string bulk(std::string_view text) {
    return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

std::string written(const replay::Answer &answer) {
    switch (answer.type) {
    case replay::Answer::Type::text:
        return bulk(answer.text);
    case replay::Answer::Type::number:
        return ":" + std::to_string(answer.number) + "\r\n";
    case replay::Answer::Type::nil:
        return "$-1\r\n";
    case replay::Answer::Type::error:
        break;
    }
    return error(answer.text);
}

} // namespace

std::string SimulatedRedis::take(Client &client, std::string_view bytes) {
    client.unread += bytes;
    std::string replies;
    std::string_view rest = client.unread;
    for (;;) {
        const std::string_view before = rest;
        if (!take_command(rest)) {
            break;
        }
        ++commands_;
        replies += reply(before.substr(0, before.size() - rest.size()));
    }
    client.unread.erase(0, client.unread.size() - rest.size());
    return replies;
}

std::string SimulatedRedis::reply(std::string_view command) {
    std::string_view rest = command;
    const std::vector<std::string_view> words = take_command(rest).value();
    if (mood_ == Mood::loading) {
        return error("LOADING Redis is loading the dataset in memory");
    }
    if (words[0] == "SCRIPT" && words.size() == 3 && words[1] == "LOAD") {
        return bulk(engine_->load(words[2]));
    }
    if (words[0] == "EVAL" || words[0] == "EVALSHA") {
        return mood_ == Mood::read_only
                   ? error("READONLY You can't write against a read only replica.")
                   : written(engine_->run(command, now().count()));
    }
    return error("ERR unknown command");
}

void SimulatedRedis::lose_data() {
    engine_ = std::make_unique<replay::EmbeddedRedis>();
}

size_t SimulatedRedis::keys() {
    engine_->keys().set_now(now().count());
    return engine_->keys().size();
}

} // namespace simulation
