// The world around a worker, as what decides needs it: clocks, chance and timers. nginx is one such
// world. Tests and simulations have others, whose time they set.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace redis_client {

/// Expires once after each start. It ends with its owner.
class Timer {
  public:
    virtual ~Timer() = default;

    /// Starts the timer, or starts it anew. If the delay is not positive it expires at once, but
    /// not before this function returns.
    virtual void start(std::chrono::milliseconds delay) = 0;
    virtual void stop() = 0;
    virtual bool is_running() const = 0;
    /// Whether a worker that shuts down waits until the timer expires. At first it does not.
    virtual void hold_worker(bool holds) = 0;
};

class World {
  public:
    /// Returns the time of the event loop's clock, which stands still during one of its turns. It
    /// never steps back.
    virtual std::chrono::milliseconds now() = 0;
    /// Returns the time of a clock that never steps back, at each call anew.
    virtual std::chrono::microseconds precise_now() const = 0;
    /// Returns the time of a clock that goes on while the machine sleeps, too, and never steps
    /// back. Leases end by it.
    virtual std::chrono::microseconds boot_now() const = 0;
    /// Returns the Unix time, which may step.
    virtual std::chrono::microseconds unix_now() const = 0;

    /// Returns a random number of at least 31 bits. Somebody may guess it.
    virtual uint64_t random() = 0;

    /// Whether the worker shuts down.
    virtual bool is_leaving() const = 0;

    virtual std::unique_ptr<Timer> make_timer(std::function<void()> on_expiry) = 0;

  protected:
    ~World() = default;
};

} // namespace redis_client
