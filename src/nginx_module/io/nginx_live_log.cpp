#include "nginx_module/io/nginx_live_log.hpp"

#include "nginx_module/log_text.hpp"
#include "nginx_module/util.hpp"

namespace nginx_module {

using redis_client::LiveTrouble;

void NginxLiveLog::on_trouble(std::string_view backend, LiveTrouble trouble, std::string_view why) {
    ngx_str_t name = to_ngx(backend);
    LogText<160> said(why);
    switch (trouble) {
    case LiveTrouble::none:
        ngx_log_error(
            NGX_LOG_WARN, log_, 0,
            "redis_rate_limit: what operators set in backend \"%V\" reaches this host again",
            &name);
        break;
    case LiveTrouble::refused:
        ngx_log_error(NGX_LOG_WARN, log_, 0,
                      "redis_rate_limit: backend \"%V\" refuses what live limits need: %V, "
                      "what operators set does not reach this host",
                      &name, said.shown());
        break;
    case LiveTrouble::damaged:
        ngx_log_error(NGX_LOG_WARN, log_, 0,
                      "redis_rate_limit: backend \"%V\" has lost a part of what operators had set, "
                      "what this host knows of it holds on",
                      &name);
        break;
    case LiveTrouble::older:
        ngx_log_error(NGX_LOG_WARN, log_, 0,
                      "redis_rate_limit: backend \"%V\" has lost the newest of what operators had "
                      "set, and no host knows it any more, what this host obeys of it holds until "
                      "they write again",
                      &name);
        break;
    case LiveTrouble::late:
        ngx_log_error(NGX_LOG_WARN, log_, 0,
                      "redis_rate_limit: backend \"%V\" does not tell what operators set: %V, "
                      "what this host knows of it holds on",
                      &name, said.shown());
        break;
    }
}

void NginxLiveLog::on_lost_store(std::string_view backend) {
    ngx_str_t name = to_ngx(backend);
    ngx_log_error(NGX_LOG_WARN, log_, 0,
                  "redis_rate_limit: backend \"%V\" has lost what operators had set, "
                  "the configured limits hold again",
                  &name);
}

void NginxLiveLog::on_no_room(std::string_view zone) {
    ngx_str_t name = to_ngx(zone);
    ngx_log_error(NGX_LOG_ERR, log_, 0,
                  "redis_rate_limit_zone \"%V\" has no room for all overrides, "
                  "some do not hold on this host: it takes a larger zone",
                  &name);
}

} // namespace nginx_module
