// This worker's end of a backend: its connection, the checks on it, and what happens when it
// fails.
#pragma once

#include "ngx.hpp"

#include "../rate_limit/backoff.hpp"
#include "../rate_limit/episode.hpp"
#include "../redis_client/session.hpp"
#include "conf.hpp"
#include "connection.hpp"
#include "locator.hpp"

#include <chrono>
#include <memory>
#include <span>
#include <string_view>
#include <variant>

namespace nginx_module {

class Backend final : Connection::Owner, Locator::Owner {
  public:
    Backend(const BackendConf &conf, ngx_log_t *log);
    virtual ~Backend();
    Backend(const Backend &) = delete;
    Backend &operator=(const Backend &) = delete;

    /// As Session's. The listener is told in this or a later turn of the event loop.
    std::variant<redis_client::Call *, redis_client::Failure>
    ask(std::span<redis_client::Charge> charges, redis_client::CheckListener &listener);
    void abandon(redis_client::Call &check);
    void refund(std::span<redis_client::Charge> charges);
    void release(redis_client::Slot &slot);

  private:
    struct Fault {
        std::string_view what;
        std::string_view detail = {}; // in the words of Redis, or of OpenSSL
        ngx_err_t error = 0;
    };

    void on_located() override;
    void on_not_located(std::string_view what, std::string_view detail) override;
    void on_moved() override;
    void on_connected() override;
    void on_bytes(std::string_view bytes) override;
    void on_lost(const Connection::Loss &loss) override;
    void on_dismissed() override;
    redis_client::ByteQueue &output() override;

    void connect();
    void connect_if_dismissed();
    void give_up(const Fault &fault,
                 std::chrono::milliseconds longest_wait = rate_limit::Backoff::longest);
    void on_ready();
    void on_deadline();
    void on_connection_timer();
    bool has_served() const;
    void disconnected(redis_client::Session::Lost lost,
                      std::chrono::milliseconds longest_wait = rate_limit::Backoff::longest);
    void settle();
    void set_deadline_timer();

    std::string_view stage() const;
    void begin_episode(const Fault &fault);
    bool fail(uint64_t checks);
    void end_episode();

    const BackendConf &conf_;
    ngx_log_t *log_;
    redis_client::Session session_;
    std::unique_ptr<Locator> locator_;
    bool is_locating_ = false;
    Connection connection_;
    std::chrono::milliseconds ready_since_{0};
    rate_limit::Backoff backoff_;
    rate_limit::Episode episode_;
    bool needs_verdict_ = false;  // to be over: Redis let us in and answered with errors
    redis_client::Counters told_; // what of the session's counters the episode knows

    ngx_event_t deadline_timer_{};
    // Connecting: that takes too long. Disconnected: time to try again. Ready, after a fault: it
    // has been quiet long enough to be over.
    ngx_event_t connection_timer_{};
};

/// The worker's backend, made and connected on first use: at a worker's start.
Backend &backend_of(BackendConf &conf);

} // namespace nginx_module
