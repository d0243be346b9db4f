// What happens to backends, in nginx's error log.
#pragma once

#include "nginx_module/ngx.hpp"

#include "redis_client/link/backend_log.hpp"

namespace nginx_module {

class NginxBackendLog final : public redis_client::BackendLog {
  public:
    explicit NginxBackendLog(ngx_log_t &log) : log_(&log) {}

    void on_outage(std::string_view backend, std::string_view place, Cause cause,
                   const redis_client::Fault &fault, std::string_view checked) override;
    void on_outage_end(std::string_view backend, std::string_view place, Cause cause, End how,
                       const redis_client::Outage::Summary &outage) override;
    void on_connecting(std::string_view place) override;
    void on_ready() override;
    void on_lost(size_t pending_checks) override;

  private:
    ngx_log_t *log_;
};

} // namespace nginx_module
