#include "simulation/simulated_worker.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace simulation {

class SimulatedWorker::SimulatedTimer final : public redis_client::Timer {
  public:
    SimulatedTimer(SimulatedWorker &worker, std::function<void()> on_expiry)
        : worker_(worker), on_expiry_(std::move(on_expiry)) {
        worker_.timers_.push_back(this);
    }
    ~SimulatedTimer() override {
        stop();
        std::erase(worker_.timers_, this);
    }

    void start(std::chrono::milliseconds delay) override {
        stop();
        place_ = worker_.timeline_.add(worker_.timeline_.now() +
                                           std::max(delay, std::chrono::milliseconds{0}),
                                       [this] { expire(); });
    }
    void stop() override {
        if (place_) {
            worker_.timeline_.remove(*place_);
            place_.reset();
            worker_.end_if_done();
        }
    }
    bool is_running() const override { return place_.has_value(); }
    void hold_worker(bool holds) override { holds_worker_ = holds; }
    bool holds_worker() const { return holds_worker_ && is_running(); }

  private:
    void expire() {
        place_.reset();
        if (worker_.is_killed_) {
            return;
        }
        if (worker_.stopped_until_ > worker_.timeline_.now()) {
            place_ = worker_.timeline_.add(worker_.stopped_until_, [this] { expire(); });
            return;
        }
        const auto on_expiry = on_expiry_; // the timer may end with it
        SimulatedWorker &worker = worker_;
        on_expiry();
        worker.end_if_done();
    }

    SimulatedWorker &worker_;
    std::function<void()> on_expiry_;
    std::optional<Timeline::Place> place_;
    bool holds_worker_ = false;
};

/// A name server that may be slow, not answer, or know no such name.
class SimulatedWorker::SimulatedLookup final : public redis_client::NameLookup {
  public:
    SimulatedLookup(SimulatedWorker &worker, Callbacks &callbacks)
        : network_(worker.network_), callbacks_(callbacks), timer_(worker, [this] { finish(); }) {}

    bool start(std::string_view name, in_port_t port) override {
        name_ = name;
        port_ = port;
        const bool is_answered = !network_.has_fault_one_in(3, nullptr);
        network_.counts.names_not_found += is_answered ? 0 : 1;
        const bool is_late = !is_answered && !network_.chance.one_in(2);
        found_ = is_answered || is_late;
        timer_.start(std::chrono::milliseconds{is_late ? 1000 : 1});
        return true;
    }

  private:
    void finish() {
        const auto host = network_.hosts.find(name_);
        if (found_ && host != network_.hosts.end()) {
            callbacks_.on_resolved(redis_client::literal_address(host->second, port_), {});
        } else {
            callbacks_.on_resolved({}, "Host not found");
        }
    }

    Network &network_;
    Callbacks &callbacks_;
    std::string name_;
    in_port_t port_ = 0;
    bool found_ = false;
    SimulatedTimer timer_;
};

SimulatedWorker::SimulatedWorker(Network &network, const rate_limit::Machine &machine,
                                 HostConfiguration &configuration, const Identity &identity,
                                 Chance chance)
    : timeline_(network.timeline),
      network_(network),
      machine_(machine),
      configuration_(configuration),
      identity_(identity),
      chance_(chance),
      log_(network, identity.ahead),
      backends_([this](const redis_client::BackendSettings &settings) {
          return redis_client::make_backend(settings, *this, log_);
      }),
      limiter_(*this, backends_, log_),
      live_log_(network) {
    const limiter::Zone *zone = &configuration.zone();
    live_ = std::make_unique<limiter::LiveSync>(
        configuration.settings(), backends_.of(configuration.settings()), std::span(&zone, 1),
        configuration.level(), *this, live_log_);
}

SimulatedWorker::~SimulatedWorker() = default;

bool SimulatedWorker::has_connection() const {
    return !is_killed_ && std::ranges::any_of(network_.connections, [this](const auto *connection) {
        return connection->is_of(*this) && connection->is_open() &&
               connection->stage() == redis_client::Connection::Stage::connected;
    });
}

void SimulatedWorker::later(Time when, std::function<void()> what) {
    timeline_.add(when, [this, what = std::move(what)]() mutable {
        if (is_killed_) {
            return;
        }
        if (stopped_until_ > timeline_.now()) {
            later(stopped_until_, std::move(what));
            return;
        }
        what();
    });
}

void SimulatedWorker::leave() {
    is_leaving_ = true;
    const auto connections = network_.connections;
    for (SimulatedConnection *connection : connections) {
        if (connection->is_of(*this)) {
            connection->dismiss();
        }
    }
    end_if_done();
}

void SimulatedWorker::end_request() {
    --requests_;
    end_if_done();
}

/// In the next turn of its event loop, if nothing begins meanwhile. All that is to be done at once
/// belongs to this turn.
void SimulatedWorker::end_if_done() {
    const auto is_done = [this] { return is_leaving_ && requests_ == 0 && may_end(); };
    if (!is_killed_ && is_done()) {
        later(timeline_.now() + Time{1}, [this, is_done] {
            if (is_done()) {
                end();
            }
        });
    }
}

bool SimulatedWorker::may_end() const {
    return std::ranges::none_of(timers_, &SimulatedTimer::holds_worker);
}

void SimulatedWorker::end() {
    if (live_ == nullptr) {
        return;
    }
    limiter_.leases.return_all();
    live_ = nullptr;
    backends_.stop();
    if (!is_killed_ && log_.lasting() > 0) {
        network_.complaints.emplace_back(
            "a worker ends, and its log does not tell that an outage does");
    }
    is_killed_ = true; // nothing is told to it any more
}

std::chrono::milliseconds SimulatedWorker::now() {
    return std::chrono::floor<std::chrono::milliseconds>(precise_now());
}

void SimulatedWorker::random_bytes(std::span<unsigned char> bytes) {
    std::ranges::generate(bytes, [&] { return static_cast<unsigned char>(chance_.next()); });
}

std::unique_ptr<redis_client::Timer> SimulatedWorker::make_timer(std::function<void()> on_expiry) {
    return std::make_unique<SimulatedTimer>(*this, std::move(on_expiry));
}

std::unique_ptr<redis_client::Connection>
SimulatedWorker::make_connection(size_t /*backend*/, redis_client::Connection::Callbacks &callbacks,
                                 std::chrono::milliseconds /*answer_timeout*/) {
    const SimulatedConnection::Process &process = *this;
    return std::make_unique<SimulatedConnection>(network_, process, callbacks);
}

std::unique_ptr<redis_client::NameLookup>
SimulatedWorker::make_lookup(size_t /*backend*/, redis_client::NameLookup::Callbacks &callbacks) {
    return std::make_unique<SimulatedLookup>(*this, callbacks);
}

} // namespace simulation
