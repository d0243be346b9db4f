#include "nginx_module/io/nginx_world.hpp"

#include "nginx_module/io/nginx_connection.hpp"
#include "nginx_module/io/nginx_lookup.hpp"
#include "nginx_module/random_bytes.hpp"
#include "nginx_module/timer.hpp"
#include "nginx_module/util.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <new>
#include <utility>

namespace nginx_module {

using std::chrono::microseconds;

namespace {

class NginxTimer final : public redis_client::Timer {
  public:
    explicit NginxTimer(std::function<void()> on_expiry) : on_expiry_(std::move(on_expiry)) {
        set_up_timer(event_, this, ngx_cycle->log, [](ngx_event_t *event) noexcept {
            const auto on_expiry = static_cast<NginxTimer *>(event->data)->on_expiry_;
            on_expiry(); // the timer may end with it
        });
    }
    ~NginxTimer() override { stop_timer(event_); }
    NginxTimer(const NginxTimer &) = delete;
    NginxTimer &operator=(const NginxTimer &) = delete;

    void start(std::chrono::milliseconds delay) override { start_timer(event_, delay); }
    void stop() override { stop_timer(event_); }
    bool is_running() const override { return event_.timer_set != 0; }
    void hold_worker(bool holds) override { event_.cancelable = holds ? 0 : 1; }

  private:
    std::function<void()> on_expiry_;
    ngx_event_t event_{};
};

} // namespace

std::chrono::milliseconds NginxWorld::now() {
    return nginx_module::now();
}

microseconds NginxWorld::precise_now() const {
    return nginx_module::precise_now();
}

microseconds NginxWorld::boot_now() const {
    return nginx_module::boot_now();
}

microseconds NginxWorld::unix_now() const {
    return nginx_module::unix_now();
}

uint64_t NginxWorld::random() {
    return static_cast<uint64_t>(::ngx_random());
}

void NginxWorld::random_bytes(std::span<unsigned char> bytes) {
    if (!openssl_random_bytes(bytes)) {
        std::ranges::generate(bytes, [] { return static_cast<unsigned char>(::ngx_random()); });
    }
}

pid_t NginxWorld::process() const {
    return ngx_pid;
}

bool NginxWorld::is_alive(pid_t process) const {
    return kill(process, 0) == 0 || errno == EPERM;
}

bool NginxWorld::is_leaving() const {
    return ngx_exiting != 0 || ngx_terminate != 0;
}

std::unique_ptr<redis_client::Timer> NginxWorld::make_timer(std::function<void()> on_expiry) {
    return std::unique_ptr<redis_client::Timer>(new (std::nothrow)
                                                    NginxTimer(std::move(on_expiry)));
}

std::unique_ptr<redis_client::Connection>
NginxWorld::make_connection(size_t backend, redis_client::Connection::Callbacks &callbacks,
                            std::chrono::milliseconds answer_timeout) {
    return std::make_unique<NginxConnection>(callbacks, ngx_cycle->log,
                                             conf_.backends[backend]->tls.get(), answer_timeout);
}

std::unique_ptr<redis_client::NameLookup>
NginxWorld::make_lookup(size_t backend, redis_client::NameLookup::Callbacks &callbacks) {
    ngx_resolver_t *resolver = conf_.backends[backend]->resolver;
    return resolver != nullptr ? std::make_unique<NginxLookup>(callbacks, *resolver) : nullptr;
}

} // namespace nginx_module
