// The running backends of one worker.
#pragma once

#include "redis_client/link/backend.hpp"

#include <memory>
#include <vector>

namespace redis_client {

class Backends {
  public:
    Backends(World &world, BackendLog &log) : world_(world), log_(log) {}
    Backends(const Backends &) = delete;
    Backends &operator=(const Backends &) = delete;

    /// Returns the running part of the backend. The first call makes it, and begins to connect. The
    /// settings outlive it.
    Backend &of(const BackendSettings &settings);

    /// Closes all running backends, because the worker ends. What is to be sent goes at once.
    void stop();

  private:
    World &world_;
    BackendLog &log_;
    std::vector<std::unique_ptr<Backend>> running_; // by their indexes; null: nobody uses it
};

} // namespace redis_client
