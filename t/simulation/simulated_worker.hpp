// A worker process of a simulated host: its event loop, and the limiter that runs in it.
#pragma once

#include "limiter/live/live_sync.hpp"
#include "limiter/worker.hpp"
#include "redis_client/io/world.hpp"
#include "simulation/host_configuration.hpp"
#include "simulation/judged_log.hpp"
#include "simulation/network.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace simulation {

class SimulatedWorker final : public redis_client::World, SimulatedConnection::Process {
  public:
    struct Identity {
        pid_t process; // no other one of the machine has this number
        Time ahead;    // what the clocks of the host are ahead of the timeline
    };

    SimulatedWorker(Network &network, const rate_limit::Machine &machine,
                    HostConfiguration &configuration, const Identity &identity, Chance chance);
    ~SimulatedWorker();

    HostConfiguration &configuration() { return configuration_; }

    limiter::Worker &limiter() { return limiter_; }
    const JudgedLog &log() const { return log_; }
    const JudgedLiveLog &live_log() const { return live_log_; }
    /// Whether it was killed, or end() was called.
    bool has_ended() const { return is_killed_; }
    /// Whether it knows a server that has accepted it.
    bool has_connection() const;
    /// Whether requests may come to it.
    bool is_serving() const { return !is_killed_ && !is_leaving_; }

    /// Adds what the process does then. It comes later if it is stopped, and never if it is killed.
    void later(Time when, std::function<void()> what);
    void stop_until(Time when) { stopped_until_ = std::max(stopped_until_, when); }
    /// The process is gone, and nothing in it is told.
    void kill() { is_killed_ = true; }
    /// It finishes what it has, because of a reload. When no request is left and no timer holds it,
    /// it ends, as nginx does.
    void leave();
    /// Whether no timer holds it.
    bool may_end() const;
    void end();
    void begin_request() { ++requests_; }
    /// A Redis has decided for a request.
    void note_verdict() { last_verdict_ = timeline_.now(); }
    Time last_verdict() const { return last_verdict_; }
    /// A Redis has charged a request.
    void note_write() { last_write_ = timeline_.now(); }
    Time last_write() const { return last_write_; }
    void end_request();

    std::chrono::milliseconds now() override;
    Time precise_now() const override { return timeline_.since_boot() + identity_.ahead; }
    Time boot_now() const override { return machine_.boot_now(); }
    Time unix_now() const override { return timeline_.now() + identity_.ahead; }
    uint64_t random() override { return chance_.next() >> 1; }
    void random_bytes(std::span<unsigned char> bytes) override;
    pid_t process() const override { return identity_.process; }
    bool is_alive(pid_t process) const override { return machine_.is_alive(process); }
    bool is_leaving() const override { return is_leaving_; }
    std::unique_ptr<redis_client::Timer> make_timer(std::function<void()> on_expiry) override;
    std::unique_ptr<redis_client::Connection>
    make_connection(size_t backend, redis_client::Connection::Callbacks &callbacks,
                    std::chrono::milliseconds answer_timeout) override;
    std::unique_ptr<redis_client::NameLookup>
    make_lookup(size_t backend, redis_client::NameLookup::Callbacks &callbacks) override;

  private:
    class SimulatedTimer;
    class SimulatedLookup;

    void end_if_done();
    bool is_killed() const override { return is_killed_; }
    Time stopped_until() const override { return stopped_until_; }

    Timeline &timeline_;
    Network &network_;
    const rate_limit::Machine &machine_;
    HostConfiguration &configuration_;
    Identity identity_;
    Chance chance_;
    bool is_killed_ = false;
    bool is_leaving_ = false;
    size_t requests_ = 0;
    Time last_verdict_{0};
    Time last_write_{0};
    Time stopped_until_{0};
    std::vector<SimulatedTimer *> timers_;
    JudgedLog log_;
    redis_client::Backends backends_;
    limiter::Worker limiter_;
    JudgedLiveLog live_log_;
    std::unique_ptr<limiter::LiveSync> live_; // null: the worker has ended
};

} // namespace simulation
