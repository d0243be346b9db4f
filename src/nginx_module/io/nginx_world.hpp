// nginx's event loop as the world of a worker.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/conf/configuration.hpp"
#include "redis_client/io/world.hpp"

namespace nginx_module {

class NginxWorld final : public redis_client::World {
  public:
    /// The configuration says which servers, resolver and TLS a backend has.
    explicit NginxWorld(const MainConf &conf) : conf_(conf) {}

    std::chrono::milliseconds now() override;
    std::chrono::microseconds precise_now() const override;
    std::chrono::microseconds boot_now() const override;
    std::chrono::microseconds unix_now() const override;
    uint64_t random() override;
    void random_bytes(std::span<unsigned char> bytes) override;
    pid_t process() const override;
    bool is_alive(pid_t process) const override;
    bool is_leaving() const override;
    std::unique_ptr<redis_client::Timer> make_timer(std::function<void()> on_expiry) override;
    std::unique_ptr<redis_client::Connection>
    make_connection(size_t backend, redis_client::Connection::Callbacks &callbacks,
                    std::chrono::milliseconds answer_timeout) override;
    std::unique_ptr<redis_client::NameLookup>
    make_lookup(size_t backend, redis_client::NameLookup::Callbacks &callbacks) override;

  private:
    const MainConf &conf_;
};

} // namespace nginx_module
