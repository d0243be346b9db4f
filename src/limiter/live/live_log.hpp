// What the log hears of the live limits that operators set. Texts are valid during the call.
#pragma once

#include "redis_client/link/backend_memory.hpp"

#include <string_view>

namespace limiter {

class LiveLog {
  public:
    /// This host has ceased to follow a backend, or follows it again if the trouble is `none`.
    /// `why` is what Redis or somebody else said.
    virtual void on_trouble(std::string_view backend, redis_client::LiveTrouble trouble,
                            std::string_view why) = 0;
    /// A backend has forgotten all that operators had set.
    virtual void on_lost_store(std::string_view backend) = 0;
    /// A zone has no room for some overrides.
    virtual void on_no_room(std::string_view zone) = 0;

  protected:
    ~LiveLog() = default;
};

} // namespace limiter
