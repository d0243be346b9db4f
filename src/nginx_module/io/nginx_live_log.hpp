// What happens to live limits, in nginx's error log.
#pragma once

#include "nginx_module/ngx.hpp"

#include "limiter/live/live_log.hpp"

namespace nginx_module {

class NginxLiveLog final : public limiter::LiveLog {
  public:
    explicit NginxLiveLog(ngx_log_t &log) : log_(&log) {}

    void on_trouble(std::string_view backend, redis_client::LiveTrouble trouble,
                    std::string_view why) override;
    void on_lost_store(std::string_view backend) override;
    void on_no_room(std::string_view zone) override;

  private:
    ngx_log_t *log_;
};

} // namespace nginx_module
