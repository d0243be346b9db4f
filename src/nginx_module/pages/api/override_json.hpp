// An override, as answers show it.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/http/configuration.hpp"
#include "nginx_module/pages/api/key.hpp"
#include "redis_client/control/live_store.hpp"

#include <chrono>

namespace nginx_module {

/// Whom an override is for. All clients have no key, and all rules no name.
struct OverrideOwner {
    const limiter::Zone &zone;
    const ClientKey *key;
    std::string_view rule;
};

/// An override with what is said of it. The texts may have any bytes.
struct ShownOverride {
    ShownOverride() = default;
    ShownOverride(const rate_limit::Override &a_what, std::chrono::microseconds time,
                  std::string_view author, std::string_view a_note)
        : what(a_what), updated_at(time), by(author), note(a_note) {}
    explicit ShownOverride(const redis_client::LiveOverride &live)
        : ShownOverride(live.what, live.updated_at, live.by, live.note) {}

    rate_limit::Override what;
    std::chrono::microseconds updated_at{0};
    std::string_view by;
    std::string_view note;
};

/// Writes an object. `redis_now` is the time of Redis's clock.
void write_override(JsonWriter &json, ngx_pool_t *pool, const OverrideOwner &owner,
                    const ShownOverride &shown, std::chrono::microseconds redis_now);

} // namespace nginx_module
