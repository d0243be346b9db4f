#include "simulation/simulated_worker.hpp"

#include <unistd.h>

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
        on_expiry();
    }

    SimulatedWorker &worker_;
    std::function<void()> on_expiry_;
    std::optional<Timeline::Place> place_;
    bool holds_worker_ = false;
};

SimulatedWorker::SimulatedWorker(Network &network, Time ahead, Chance chance)
    : timeline_(network.timeline),
      network_(network),
      ahead_(ahead),
      chance_(chance),
      backends_([this](const redis_client::BackendSettings &settings) {
          return redis_client::make_backend(settings, *this, log_);
      }),
      limiter_(*this, backends_, log_) {}

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
}

bool SimulatedWorker::may_end() const {
    return std::ranges::none_of(timers_, &SimulatedTimer::holds_worker);
}

void SimulatedWorker::end() {
    limiter_.leases.return_all();
    backends_.stop();
    is_killed_ = true; // nothing is told to it any more
}

std::chrono::milliseconds SimulatedWorker::now() {
    return std::chrono::floor<std::chrono::milliseconds>(precise_now());
}

bool SimulatedWorker::random_bytes(std::span<unsigned char> bytes) {
    std::ranges::generate(bytes, [&] { return static_cast<unsigned char>(chance_.next()); });
    return true;
}

pid_t SimulatedWorker::process() const {
    return getpid();
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

} // namespace simulation
