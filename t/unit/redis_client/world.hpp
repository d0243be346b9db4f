// A world whose clock, chance, network and names a test sets.
#pragma once

#include "redis_client/io/world.hpp"
#include "unit/redis_client/wire.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace redis_client {

class TestWorld;

/// Expires when the test's clock comes to it.
class TestTimer final : public Timer {
  public:
    TestTimer(TestWorld &world, std::function<void()> on_expiry);
    ~TestTimer() override;

    void start(std::chrono::milliseconds delay) override;
    void stop() override { due_.reset(); }
    bool is_running() const override { return due_.has_value(); }
    void hold_worker(bool holds) override { holds_worker = holds; }

    bool holds_worker = false;

  private:
    friend class TestWorld;

    TestWorld &world_;
    std::function<void()> on_expiry_;
    std::optional<std::pair<std::chrono::milliseconds, uint64_t>>
        due_; // and the number of its start
};

/// The test is the server at the other end.
class TestConnection final : public Connection {
  public:
    TestConnection(TestWorld &world, Callbacks &callbacks);
    ~TestConnection() override;

    void open(const Address &address, std::string_view host) override;
    void close() override;
    bool is_open() const override { return is_open_; }
    Stage stage() const override { return stage_; }
    void send_soon() override { is_to_send_ = is_open_ && stage_ == Stage::connected; }
    void send_now() override;
    void read_now() override;
    void set_idle(bool idle) override { is_idle_ = idle; }

    // What the test does and sees:

    const std::string &address() const { return address_; }
    const std::string &host() const { return host_; }
    bool is_idle() const { return is_idle_; }
    void shake_hands() { stage_ = Stage::shaking_hands; }
    void accept();
    void refuse() { lose({"connecting failed", {}, ECONNREFUSED}); }
    void lose(const Fault &fault = {"the connection was closed"});
    void receive(std::string_view bytes);
    /// The server says something and closes the connection, which is read at once.
    void receive_and_lose(std::string_view bytes);
    /// Comes, but nobody is told before read_now().
    void arrive(std::string_view bytes) { arrived_ += bytes; }
    /// The worker shuts down: an idle connection hears of it.
    void dismiss() { callbacks_.on_dismissed(); }
    /// Returns the commands since the last call.
    Commands sent() { return parse_commands(std::exchange(sent_, {})); }

  private:
    friend class TestWorld;

    TestWorld &world_;
    Callbacks &callbacks_;
    bool is_open_ = false;
    Stage stage_ = Stage::connecting;
    bool is_to_send_ = false;
    bool is_idle_ = false;
    std::string address_;
    std::string host_;
    std::string sent_;
    std::string arrived_;
};

class TestLookup final : public NameLookup {
  public:
    TestLookup(TestWorld &world, Callbacks &callbacks)
        : world_(world), callbacks_(callbacks), timer_(world, [this] { answer(); }) {}

    bool start(std::string_view name, in_port_t port) override;

  private:
    void answer();

    TestWorld &world_;
    Callbacks &callbacks_;
    std::string name_;
    in_port_t port_ = 0;
    TestTimer timer_;
};

class TestWorld final : public World {
  public:
    std::chrono::milliseconds now() override { return now_; }
    std::chrono::microseconds precise_now() const override { return now_; }
    std::chrono::microseconds boot_now() const override { return now_; }
    std::chrono::microseconds unix_now() const override { return now_; }
    uint64_t random() override { return random_number; }
    void random_bytes(std::span<unsigned char> bytes) override {
        std::ranges::fill(bytes, static_cast<unsigned char>(++random_bytes_));
    }
    pid_t process() const override { return 1; }
    bool is_alive(pid_t process) const override { return process == 1; }
    bool is_leaving() const override { return is_worker_leaving; }
    std::unique_ptr<Timer> make_timer(std::function<void()> on_expiry) override {
        return has_memory ? std::make_unique<TestTimer>(*this, std::move(on_expiry)) : nullptr;
    }
    std::unique_ptr<Connection> make_connection(size_t /*backend*/,
                                                Connection::Callbacks &callbacks,
                                                std::chrono::milliseconds /*timeout*/) override {
        return std::make_unique<TestConnection>(*this, callbacks);
    }
    std::unique_ptr<NameLookup> make_lookup(size_t /*backend*/,
                                            NameLookup::Callbacks &callbacks) override {
        return has_resolver ? std::make_unique<TestLookup>(*this, callbacks) : nullptr;
    }

    /// Ends the turn of the event loop: what is to be sent goes, and what is due expires.
    void end_turn() { pass(std::chrono::milliseconds{0}); }
    /// Lets so much time pass, with all that is due meanwhile.
    void pass(std::chrono::milliseconds time);

    /// Returns the open connections, those that were opened first in front.
    std::vector<TestConnection *> connections() const;
    /// Returns the only connection to the address, which must be open.
    TestConnection &connection_to(std::string_view address) const;
    size_t opened() const { return opened_; } // how many connections were, ever
    bool is_worker_held() const;

    uint64_t random_number = 0;
    bool is_worker_leaving = false;
    bool has_memory = true; // for timers
    bool has_resolver = false;
    std::map<std::string, std::vector<Address>, std::less<>> names; // that the resolver knows
    std::chrono::milliseconds answers_in{0}; // so long a lookup takes; 0: it ends at once
    size_t lookups = 0;                      // that have begun

  private:
    friend class TestTimer;
    friend class TestConnection;

    void send();

    std::chrono::milliseconds now_{1'000'000};
    unsigned random_bytes_ = 0;
    uint64_t started_ = 0; // timers, ever
    size_t opened_ = 0;
    std::vector<TestTimer *> timers_;
    std::vector<TestConnection *> connections_;
};

inline TestTimer::TestTimer(TestWorld &world, std::function<void()> on_expiry)
    : world_(world), on_expiry_(std::move(on_expiry)) {
    world_.timers_.push_back(this);
}

inline TestTimer::~TestTimer() {
    std::erase(world_.timers_, this);
}

inline void TestTimer::start(std::chrono::milliseconds delay) {
    due_ = {world_.now_ + std::max(delay, std::chrono::milliseconds{0}), ++world_.started_};
}

inline TestConnection::TestConnection(TestWorld &world, Callbacks &callbacks)
    : world_(world), callbacks_(callbacks) {
    world_.connections_.push_back(this);
}

inline TestConnection::~TestConnection() {
    std::erase(world_.connections_, this);
}

inline void TestConnection::open(const Address &address, std::string_view host) {
    close();
    is_open_ = true;
    stage_ = Stage::connecting;
    is_idle_ = false;
    address_ = address.text();
    host_ = host;
    ++world_.opened_;
    std::erase(world_.connections_, this);
    world_.connections_.push_back(this);
}

inline void TestConnection::close() {
    is_open_ = is_to_send_ = false;
    sent_.clear();
    arrived_.clear();
}

inline void TestConnection::send_now() {
    is_to_send_ = false;
    if (is_open_ && stage_ == Stage::connected) {
        ByteQueue &output = callbacks_.fill_output();
        sent_ += output.bytes();
        output.consume(output.bytes().size());
    }
}

inline void TestConnection::read_now() {
    if (!arrived_.empty()) {
        callbacks_.on_bytes(std::exchange(arrived_, {}));
    }
}

inline void TestConnection::accept() {
    stage_ = Stage::connected;
    callbacks_.on_connected();
    world_.end_turn();
}

inline void TestConnection::lose(const Fault &fault) {
    close();
    callbacks_.on_lost(fault);
    world_.end_turn();
}

inline void TestConnection::receive(std::string_view bytes) {
    callbacks_.on_bytes(bytes);
    world_.end_turn();
}

inline void TestConnection::receive_and_lose(std::string_view bytes) {
    callbacks_.on_bytes(bytes);
    lose();
}

inline bool TestLookup::start(std::string_view name, in_port_t port) {
    name_ = name;
    port_ = port;
    ++world_.lookups;
    if (world_.answers_in.count() == 0) {
        answer();
    } else {
        timer_.start(world_.answers_in);
    }
    return true;
}

inline void TestLookup::answer() {
    std::vector<Address> found;
    if (const auto known = world_.names.find(name_); known != world_.names.end()) {
        for (const Address &address : known->second) {
            found.push_back(address.with_port(port_));
        }
    }
    callbacks_.on_resolved(std::move(found), "Host not found");
}

inline void TestWorld::send() {
    const auto all = connections_;
    for (TestConnection *connection : all) {
        if (std::ranges::count(connections_, connection) > 0 && connection->is_to_send_) {
            connection->send_now();
        }
    }
}

inline void TestWorld::pass(std::chrono::milliseconds time) {
    const auto end = now_ + time;
    for (;;) {
        send();
        TestTimer *next = nullptr;
        for (TestTimer *timer : timers_) {
            if (timer->due_ && timer->due_->first <= end &&
                (next == nullptr || *timer->due_ < *next->due_)) {
                next = timer;
            }
        }
        if (next == nullptr) {
            now_ = end;
            return;
        }
        now_ = std::max(now_, next->due_->first);
        next->due_.reset();
        next->on_expiry_();
    }
}

inline std::vector<TestConnection *> TestWorld::connections() const {
    std::vector<TestConnection *> open;
    std::ranges::copy_if(connections_, std::back_inserter(open), &TestConnection::is_open);
    return open;
}

inline TestConnection &TestWorld::connection_to(std::string_view address) const {
    TestConnection *found = nullptr;
    for (TestConnection *connection : connections()) {
        if (connection->address() == address) {
            EXPECT_EQ(found, nullptr) << "two connections to " << address;
            found = connection;
        }
    }
    if (found == nullptr) {
        ADD_FAILURE() << "no connection to " << address;
        abort(); // nothing that follows makes sense
    }
    return *found;
}

inline bool TestWorld::is_worker_held() const {
    return std::ranges::any_of(
        timers_, [](const auto *timer) { return timer->is_running() && timer->holds_worker; });
}

} // namespace redis_client
