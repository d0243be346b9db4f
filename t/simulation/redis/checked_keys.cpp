#include "simulation/redis/checked_keys.hpp"

#include "simulation/lives.hpp"
#include "simulation/redis/resp.hpp"

#include <algorithm>
#include <utility>

namespace simulation {

void CheckedKeys::note_check(std::span<const std::string_view> keys, std::string_view command) {
    const auto check = std::make_shared<const std::string>(command);
    for (const std::string_view key : keys) {
        checks_.insert_or_assign(std::string(key), check);
        written_.emplace(key);
    }
}

std::vector<std::string> CheckedKeys::judge_lives(replay::KeyStore &store, const Texts &texts,
                                                  const Names &excused) {
    std::vector<std::string> wrong;
    for (const std::string &key : std::exchange(written_, {})) {
        if (!excused.contains(key) && is_wrong(store, key, texts)) {
            wrong.push_back(key);
        }
    }
    return wrong;
}

bool CheckedKeys::is_wrong(replay::KeyStore &store, const std::string &key, const Texts &texts) {
    const auto check = checks_.find(key);
    const replay::KeyStore::Value *value = store.find(key);
    if (check == checks_.end() || value == nullptr) {
        return false;
    }
    const int64_t lives_ms = store.time_to_live_ms(key);
    if (lives_ms < 0) {
        return true;
    }
    const std::string &command = *check->second;
    std::string_view rest = command;
    const auto words = *take_command(rest);
    const auto keys = keys_of(words);
    const auto window_us = common_window_us(keys);
    // The other keys of the check are not there, for they end at other times.
    const bool has_other_bucket = std::ranges::any_of(
        keys, [&](std::string_view other) { return other != key && is_of_bucket(other); });
    if (!window_us || has_other_bucket || is_of_permits(key)) {
        return false;
    }
    if (engine_ == nullptr) {
        engine_ = std::make_unique<replay::EmbeddedRedis>();
    }
    if (const auto text = texts.find(words[1]); text != texts.end()) {
        (void)engine_->load(text->second);
    }
    return is_forgotten_too_early(
        (store.now_us() / 1000 + lives_ms) * 1000, *window_us,
        [&](int64_t clock_us) { return answer_at(clock_us, key, *value, command); });
}

std::string CheckedKeys::answer_at(int64_t clock_us, const std::string &key,
                                   const replay::KeyStore::Value &value,
                                   const std::string &command) {
    engine_->keys() = {};
    engine_->keys().make(key) = value;
    return std::string(engine_->run(command, clock_us).text);
}

} // namespace simulation
