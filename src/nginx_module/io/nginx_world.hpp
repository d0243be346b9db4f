// nginx's event loop as the world of a worker.
#pragma once

#include "nginx_module/ngx.hpp"

#include "redis_client/io/world.hpp"

namespace nginx_module {

class NginxWorld final : public redis_client::World {
  public:
    std::chrono::milliseconds now() override;
    std::chrono::microseconds precise_now() const override;
    std::chrono::microseconds boot_now() const override;
    std::chrono::microseconds unix_now() const override;
    uint64_t random() override;
    bool is_leaving() const override;
    std::unique_ptr<redis_client::Timer> make_timer(std::function<void()> on_expiry) override;
};

} // namespace nginx_module
