// The running backends of one worker.
#pragma once

#include "redis_client/link/backend.hpp"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace redis_client {

/// Makes the running part of a backend, which begins to connect. All arguments outlive it.
std::unique_ptr<Backend> make_backend(const BackendSettings &settings, World &world,
                                      BackendLog &log);

class Backends {
  public:
    using Make = std::function<std::unique_ptr<Backend>(const BackendSettings &)>;

    explicit Backends(Make make) : make_(std::move(make)) {}
    Backends(const Backends &) = delete;
    Backends &operator=(const Backends &) = delete;

    /// Returns the running part of the backend. The first call makes it. The settings outlive it.
    Backend &of(const BackendSettings &settings);

    /// Settles at a backend. While all of them are closed, the settlement is lost: a check that
    /// fails for that may still ask for one.
    void settle(const BackendSettings &settings, const SettlementOrder &order);

    /// Closes all running backends, because the worker ends. What is to be sent goes at once.
    void stop();

  private:
    bool is_stopped_ = false;
    Make make_;
    std::vector<std::unique_ptr<Backend>> running_; // by their indexes; null: nobody uses it
};

} // namespace redis_client
