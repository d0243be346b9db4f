// What tests of live limits share: a log that counts.
#pragma once

#include "limiter/live/live_log.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace limiter {

class TestLiveLog final : public LiveLog {
  public:
    void on_trouble(std::string_view, redis_client::LiveTrouble trouble,
                    std::string_view) override {
        troubles.push_back(trouble);
    }
    void on_lost_store(std::string_view) override { ++lost; }
    void on_no_room(std::string_view zone) override { no_room.emplace_back(zone); }

    std::vector<redis_client::LiveTrouble> troubles;
    int lost = 0;
    std::vector<std::string> no_room; // the zones
};

} // namespace limiter
