// nginx timers that belong to one object. They are cancelable: they do not keep a worker alive that
// is shutting down.
#pragma once

#include "nginx_module/ngx.hpp"

#include <algorithm>
#include <chrono>

namespace nginx_module {

inline void set_up_timer(ngx_event_t &timer, void *owner, ngx_log_t *log,
                         ngx_event_handler_pt handler) {
    timer.data = owner;
    timer.log = log;
    timer.handler = handler;
    timer.cancelable = 1;
}

inline void stop_timer(ngx_event_t &timer) {
    if (timer.timer_set) {
        ngx_del_timer(&timer);
    }
}

inline void start_timer(ngx_event_t &timer, std::chrono::milliseconds delay) {
    stop_timer(timer); // ngx_add_timer() alone moves no timer by less than 300 ms
    ngx_add_timer(&timer, static_cast<ngx_msec_t>(std::max(delay.count(), int64_t{0})));
}

} // namespace nginx_module
