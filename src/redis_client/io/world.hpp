// The world around a worker, as what decides needs it: clocks, chance, timers and connections.
// nginx is one such world. Tests and simulations have others, whose time they set.
#pragma once

#include "rate_limit/tables/machine.hpp"
#include "redis_client/io/connection.hpp"
#include "redis_client/io/name_lookup.hpp"

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

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

class World : public rate_limit::Machine {
  public:
    /// Returns the time of the event loop's clock, which stands still during one of its turns. It
    /// never steps back.
    virtual std::chrono::milliseconds now() = 0;
    /// Returns the time of a clock that never steps back, at each call anew.
    virtual std::chrono::microseconds precise_now() const = 0;
    /// Returns the Unix time, which may step.
    virtual std::chrono::microseconds unix_now() const = 0;

    /// Returns a random number of at least 31 bits. Somebody may guess it.
    virtual uint64_t random() = 0;
    /// Sets bytes that no other worker gets, of any host. Nobody can guess them, if the machine has
    /// such.
    virtual void random_bytes(std::span<unsigned char> bytes) = 0;

    /// Returns the worker's process, by which memory that processes share knows the worker.
    virtual pid_t process() const = 0;

    /// Whether the worker shuts down.
    virtual bool is_leaving() const = 0;

    /// Returns null if memory ran out.
    virtual std::unique_ptr<Timer> make_timer(std::function<void()> on_expiry) = 0;

    /// Makes a connection to one of the servers of the backend that has this index.
    /// `answer_timeout` is for how long an answer is waited for.
    virtual std::unique_ptr<Connection>
    make_connection(size_t backend, Connection::Callbacks &callbacks,
                    std::chrono::milliseconds answer_timeout) = 0;
    /// Makes what looks up the names of the backend's servers. Returns null if they have none that
    /// are looked up while the worker runs.
    virtual std::unique_ptr<NameLookup> make_lookup(size_t backend,
                                                    NameLookup::Callbacks &callbacks) = 0;

  protected:
    ~World() = default;
};

} // namespace redis_client
