// The keys of a simulated Redis that scripts of the module have written, each with the check that
// was the last one to ask for it.
#pragma once

#include "replay/redis/embedded_redis.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace simulation {

class CheckedKeys {
  public:
    using Texts = std::map<std::string, std::string, std::less<>>;
    using Names = std::set<std::string, std::less<>>;

    /// A check has run, as this command in RESP.
    void note_check(std::span<const std::string_view> keys, std::string_view command);
    /// A script has run that settles.
    void note_settlement(std::span<const std::string_view> keys) {
        written_.insert(keys.begin(), keys.end());
    }

    /// Returns those that were written since the last call and will be gone too early, or never,
    /// but for the excused ones. `texts` are those of the scripts, by their SHA-1.
    std::vector<std::string> judge_lives(replay::KeyStore &store, const Texts &texts,
                                         const Names &excused);

  private:
    bool is_wrong(replay::KeyStore &store, const std::string &key, const Texts &texts);
    std::string answer_at(int64_t clock_us, const std::string &key,
                          const replay::KeyStore::Value &value, const std::string &command);

    std::map<std::string, std::shared_ptr<const std::string>, std::less<>> checks_; // by key
    Names written_;
    std::unique_ptr<replay::EmbeddedRedis> engine_; // has one key, which does not expire
};

} // namespace simulation
