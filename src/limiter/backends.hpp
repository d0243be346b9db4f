// The running backends of a worker.
#pragma once

#include "redis_client/link/backend.hpp"

namespace limiter {

class Backends {
  public:
    /// Returns the running part of a backend. The first call makes it, and begins to connect.
    virtual redis_client::Backend &of(const redis_client::BackendSettings &settings) = 0;

  protected:
    ~Backends() = default;
};

} // namespace limiter
