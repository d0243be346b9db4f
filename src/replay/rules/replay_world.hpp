// The world of a worker whose clock is that of a log, and whose Redis answers at once.
#pragma once

#include "redis_client/io/world.hpp"

#include <algorithm>
#include <random>

namespace replay {

class ReplayWorld final : public redis_client::World {
  public:
    void set_time(int64_t now_us) { now_ = std::chrono::microseconds(now_us); }

    std::chrono::milliseconds now() override {
        return std::chrono::duration_cast<std::chrono::milliseconds>(now_);
    }
    std::chrono::microseconds precise_now() const override { return now_; }
    std::chrono::microseconds boot_now() const override { return now_; }
    std::chrono::microseconds unix_now() const override { return now_; }
    /// It chooses shards, in each run the same.
    uint64_t random() override { return random_(); }
    void random_bytes(std::span<unsigned char> bytes) override {
        std::ranges::generate(bytes, [this] { return static_cast<unsigned char>(random()); });
    }
    pid_t process() const override { return 1; }
    bool is_alive(pid_t process) const override { return process == 1; }
    bool is_leaving() const override { return false; }
    /// Nothing that takes time happens here.
    std::unique_ptr<redis_client::Timer> make_timer(std::function<void()> /*on_expiry*/) override {
        return std::make_unique<Never>();
    }
    std::unique_ptr<redis_client::Connection>
    make_connection(size_t /*backend*/, redis_client::Connection::Callbacks & /*callbacks*/,
                    std::chrono::milliseconds /*answer_timeout*/) override {
        return nullptr;
    }
    std::unique_ptr<redis_client::NameLookup>
    make_lookup(size_t /*backend*/, redis_client::NameLookup::Callbacks & /*callbacks*/) override {
        return nullptr;
    }

  private:
    class Never final : public redis_client::Timer {
        void start(std::chrono::milliseconds /*delay*/) override {}
        void stop() override {}
        bool is_running() const override { return false; }
        void hold_worker(bool /*holds*/) override {}
    };

    std::chrono::microseconds now_{0};
    std::minstd_rand random_;
};

} // namespace replay
