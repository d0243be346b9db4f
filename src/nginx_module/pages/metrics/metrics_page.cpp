#include "nginx_module/pages/metrics/metrics_page.hpp"

#include "nginx_module/decisions/key_text.hpp"
#include "nginx_module/http/configuration.hpp"
#include "nginx_module/http/send_content.hpp"
#include "nginx_module/pages/page_response.hpp"
#include "nginx_module/pages/shown_limits.hpp"
#include "nginx_module/util.hpp"
#include "nginx_module/worker/worker.hpp"
#include "rate_limit/metrics/metrics.hpp"

#include <algorithm>
#include <span>

namespace nginx_module {

namespace {

using rate_limit::ZoneValue;
using std::chrono::microseconds;

/// How far down a format goes: to rules, or to the keys rejected most.
enum class Depth : uint8_t { rules, keys };

/// Makes an array of `count` objects in the pool. Its data is null if memory ran out.
template <typename T>
std::span<T> pool_span(ngx_pool_t *pool, size_t count) {
    return {pool_array<T>(pool, count), count};
}

bool read_rules(ngx_pool_t *pool, const limiter::Zone &zone, rate_limit::ZoneMetrics &metrics) {
    const auto rules = pool_span<rate_limit::RuleMetrics>(pool, zone.named_rules.size());
    if (rules.data() == nullptr) {
        return false;
    }
    const microseconds now = unix_now();
    std::ranges::transform(zone.named_rules, rules.begin(), [now](const limiter::Rule *rule) {
        const rate_limit::Calendar *calendar = rule->rule.calendar.get();
        return rate_limit::RuleMetrics{.name = rule->name,
                                       .algorithm = rule->rule.quota.algorithm,
                                       .limit = rule->limit_label,
                                       .window = rule->rule.quota_at(now).window,
                                       .calendar =
                                           calendar != nullptr ? &calendar->parts() : nullptr,
                                       .counts = rule->counters->read()};
    });
    metrics.rules = rules;
    return true;
}

/// Returns what is shown of a top key, in the pool's memory; its data is null if memory ran out.
ngx_str_t pooled_text(ngx_pool_t *pool, const limiter::Zone &zone, std::string_view kept) {
    if (zone.kept_top_keys() == rate_limit::TopKeys::Kept::hashes) {
        ngx_str_t hash = to_ngx(kept);
        return {hash.len, ngx_pstrdup(pool, &hash)};
    }
    KeyText text(zone, kept);
    return {text.shown()->len, ngx_pstrdup(pool, text.shown())};
}

/// Returns false if memory ran out.
bool read_top_keys(ngx_pool_t *pool, const limiter::Zone &zone, rate_limit::ZoneMetrics &metrics) {
    rate_limit::TopKeys::Buffer buffer;
    const auto counted = zone.memory.top_keys().read(zone.kept_top_keys(), buffer);
    const auto top = pool_span<rate_limit::TopKeyMetrics>(pool, counted.size());
    if (top.data() == nullptr) {
        return false;
    }
    for (size_t i = 0; i < counted.size(); ++i) {
        const ngx_str_t pooled = pooled_text(pool, zone, counted[i].key());
        if (pooled.data == nullptr) {
            return false;
        }
        top[i] = {
            .key = view(pooled), .is_cut = counted[i].is_cut, .rejected = counted[i].rejected};
    }
    metrics.top_rejected = top;
    return true;
}

/// Returns false if memory ran out.
bool read_zone(ngx_pool_t *pool, const Context &context, const limiter::Zone &zone, Depth depth,
               rate_limit::ZoneMetrics &metrics) {
    const microseconds now = precise_now();
    const microseconds on_boot_clock = boot_now();
    const rate_limit::LiveLimits &limits = zone.memory.live_limits();
    metrics = {
        .name = zone.name, .context = context.name, .values = {}, .top_rejected = {}, .rules = {}};
    metrics.of(ZoneValue::size_bytes) = zone.size;
    metrics.of(ZoneValue::used_bytes) = zone.size - zone.memory.free_bytes(now, on_boot_clock);
    metrics.of(ZoneValue::entries) = zone.memory.entries(now, on_boot_clock);
    metrics.of(ZoneValue::evictions) = zone.memory.evictions();
    metrics.of(ZoneValue::overrides) = limits.count();
    metrics.of(ZoneValue::override_rejections) = limits.rejections();
    metrics.of(ZoneValue::overrides_dropped) = limits.dropped();
    return (depth == Depth::rules || read_top_keys(pool, zone, metrics)) &&
           read_rules(pool, zone, metrics);
}

rate_limit::BackendMetrics read_backend(const ShownLimits &limits, const BackendConf &backend,
                                        microseconds now) {
    return {.name = backend.name,
            .mode = backend.traits().name,
            .servers = backend.server_texts,
            .counts = backend.memory.read(limits.worker->world, now),
            .follows_live_limits =
                backend.memory.live_trouble() == redis_client::LiveTrouble::none};
}

/// Returns the time since the first of the counters began.
std::chrono::seconds uptime_of(const AllLimits &all, microseconds now) {
    microseconds began = now;
    for (const ShownLimits &limits : all) {
        for (const auto &zone : limits.conf->zones) {
            began = std::min(began, zone->memory.began());
        }
        for (const auto &backend : limits.conf->backends) {
            began = std::min(began, backend->memory.began());
        }
    }
    return std::chrono::duration_cast<std::chrono::seconds>(now - began);
}

uint64_t worker_count() {
    const auto *core = reinterpret_cast<const ngx_core_conf_t *>(
        ngx_get_conf(ngx_cycle->conf_ctx, ngx_core_module));
    return static_cast<uint64_t>(core->worker_processes);
}

/// Returns false if memory ran out.
bool read_metrics(ngx_pool_t *pool, Depth depth, rate_limit::Metrics &metrics) {
    const AllLimits all;
    size_t zone_count = 0;
    size_t backend_count = 0;
    for (const ShownLimits &limits : all) {
        zone_count += limits.conf->zones.size();
        backend_count += limits.conf->backends.size();
    }
    const auto zones = pool_span<rate_limit::ZoneMetrics>(pool, zone_count);
    const auto backends = pool_span<rate_limit::BackendMetrics>(pool, backend_count);
    if (zones.data() == nullptr || backends.data() == nullptr) {
        return false;
    }
    const microseconds now = precise_now();
    auto zone_metrics = zones.begin();
    auto backend_metrics = backends.begin();
    for (const ShownLimits &limits : all) {
        for (const auto &zone : limits.conf->zones) {
            if (!read_zone(pool, limits.conf->context, *zone, depth, *zone_metrics++)) {
                return false;
            }
        }
        for (const auto &backend : limits.conf->backends) {
            *backend_metrics++ = read_backend(limits, *backend, now);
        }
    }
    metrics = {.server_version = NGINX_VERSION,
               .workers = worker_count(),
               .uptime = uptime_of(all, now),
               .backends = backends,
               .zones = zones};
    return true;
}

struct Format {
    size_t (*write)(const rate_limit::Metrics &metrics, std::span<char> out);
    std::string_view type;
    Depth depth;
};

/// Writes the whole text to one buffer. Returns null if memory ran out.
ngx_buf_t *write_metrics(ngx_http_request_t *r, const Format &format) {
    rate_limit::Metrics metrics;
    if (!read_metrics(r->pool, format.depth, metrics)) {
        return nullptr;
    }
    const size_t size = format.write(metrics, {});
    ngx_buf_t *text = ngx_create_temp_buf(r->pool, size);
    if (text == nullptr) {
        return nullptr;
    }
    text->last += format.write(metrics, {reinterpret_cast<char *>(text->pos), size});
    return text;
}

ngx_int_t respond(ngx_http_request_t *r, const Format &format) {
    if (format.depth == Depth::keys && skips_access(r)) {
        return NGX_HTTP_FORBIDDEN;
    }
    const ngx_int_t accepted = accept_reader(r);
    if (accepted != NGX_OK) {
        return accepted;
    }
    ngx_buf_t *text = write_metrics(r, format);
    if (text == nullptr) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    ngx_chain_t content{.buf = text, .next = nullptr};
    return send_content(r, NGX_HTTP_OK, format.type, content);
}

} // namespace

ngx_int_t prometheus_handler(ngx_http_request_t *r) noexcept {
    return respond(r, {.write = rate_limit::write_prometheus,
                       .type = "text/plain; version=0.0.4; charset=utf-8",
                       .depth = Depth::rules});
}

ngx_int_t json_handler(ngx_http_request_t *r) noexcept {
    return respond(
        r, {.write = rate_limit::write_json, .type = "application/json", .depth = Depth::keys});
}

} // namespace nginx_module
