#include "rate_limit/metrics/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

using Write = size_t (*)(const Metrics &metrics, std::span<char> out);

std::string written(Write write, const Metrics &metrics) {
    std::string text(write(metrics, {}), '?');
    EXPECT_EQ(write(metrics, text), text.size());
    return text;
}

/// JSON in which the version is an empty text: t/docs/readme.t tests that it is that of the file
/// VERSION.
std::string without_version(std::string json) {
    const size_t begin = std::string_view(R"({"version": ")").size();
    json.erase(begin, json.find('"', begin) - begin);
    return json;
}

/// The metrics of one rule, one zone and one backend.
struct Example {
    Example() {
        for (size_t i = 0; i < outcome_count; ++i) {
            rules[0].counts.outcomes[i] = i + 1;
        }
        rules[0].counts.counters = {2, 1, 21, 22, 23, 24, 25, 26, 31, 32, 33};
        LatencyHistogram histogram{};
        histogram.add(300us);
        histogram.add(1500us);
        backends[0].counts.state = BackendState::up;
        backends[0].counts.checks = 21;
        backends[0].counts.errors = {1, 2, 3, 4, 5};
        backends[0].counts.events = {6, 7}; // reconnects and reloads of scripts
        backends[0].counts.pending = 8;
        backends[0].counts.latency = histogram.read();
        histogram.reset();
        histogram.add(400us);
        backends[0].counts.recent_latency = histogram.read();
    }
    Example(const Example &) = delete;
    Example &operator=(const Example &) = delete;

    std::vector<RuleMetrics> rules{{.name = "per_ip/60s",
                                    .algorithm = Algorithm::sliding_log,
                                    .limit = "100",
                                    .window = 60s,
                                    .calendar = nullptr,
                                    .counts = {}}};
    std::vector<TopKeyMetrics> top_rejected{{.key = "203.0.113.7", .is_cut = false, .rejected = 12},
                                            {.key = R"(\x22)", .is_cut = true, .rejected = 1}};
    std::vector<ZoneMetrics> zones{{.name = "per_ip",
                                    .context = "http",
                                    .values = {20000, 1048576, 12, 3, 31, 32, 33},
                                    .top_rejected = top_rejected,
                                    .rules = rules}};
    std::vector<std::string> servers{"127.0.0.1:6379", "unix:/a\"b"};
    std::vector<BackendMetrics> backends{{.name = "default",
                                          .mode = "standalone",
                                          .servers = servers,
                                          .counts = {},
                                          .follows_live_limits = true}};
    Metrics metrics{.server_version = "1.22.1",
                    .workers = 2,
                    .uptime = 90s,
                    .backends = backends,
                    .zones = zones};
};

TEST(MetricsTest, Json) {
    const Example example;
    EXPECT_EQ(
        without_version(written(write_json, example.metrics)),
        R"({"version": "", "nginx_version": "1.22.1", "workers": 2, "uptime_seconds": 90, )"
        R"("backends": {"default": {"mode": "standalone", )"
        R"("servers": ["127.0.0.1:6379", "unix:/a\"b"], "state": "up", "checks": 21, )"
        R"("errors": {"timeout": 1, "connect": 2, "reply": 3, "breaker": 4, "overload": 5}, )"
        R"("reconnects": 6, "script_reloads": 7, "pending": 8, "live_limits_followed": true, )"
        R"("latency_seconds": {"p50": 0.0004, "p90": 0.0004, "p99": 0.0004, "max": 0.0004}}}, )"
        R"("zones": {"per_ip": {"context": "http", "size_bytes": 1048576, "used_bytes": 20000, )"
        R"("entries": 12, "evictions": 3, "overrides": {"count": 31, "rejections": 32, "dropped": 33, )"
        R"("rejected": {"per_ip/60s": 1}}, )"
        R"("top_rejected": [{"key": "203.0.113.7", "rejected": 12}, )"
        R"({"key": "\\x22", "is_cut": true, "rejected": 1}], "rules": {"per_ip/60s": )"
        R"({"algorithm": "sliding_log", "limit": "100", "window_seconds": 60, "passed": 1, )"
        R"("delayed": 2, "rejected": 3, "rejected_by_deny_cache": 2, "dry_run_delayed": 4, )"
        R"("dry_run_rejected": 5, "local_passed": 6, "local_delayed": 7, "local_rejected": 8, )"
        R"("uncharged": 9, "error_open": 10, "error_closed": 11, "invalid": 12, )"
        R"("leases": {"taken": 21, "units": 22, "used": 23, "returned": 24, "expired": 25, "requests": 26}, )"
        R"("settlements": {"charged": 31, "returned": 32, "lost": 33}}}}}})"
        "\n");
}

TEST(MetricsTest, JsonOfNothing) {
    EXPECT_EQ(
        without_version(written(
            write_json,
            {.server_version = "1.22.1", .workers = 1, .uptime = 0s, .backends = {}, .zones = {}})),
        R"({"version": "", "nginx_version": "1.22.1", "workers": 1, )"
        R"("uptime_seconds": 0, "backends": {}, "zones": {}})"
        "\n");
}

TEST(MetricsTest, JsonEscapesWhatAConfigurationMaySay) {
    Example example;
    example.rules[0].limit = std::string_view("$\"a\\b\n\0\x7f\xc3\xa4", 10);
    const std::string json = written(write_json, example.metrics);
    EXPECT_NE(json.find(R"("limit": "$\"a\\b\u000a\u0000\u007f\u00c3\u00a4")"), std::string::npos)
        << json;
}

TEST(MetricsTest, Prometheus) {
    const Example example;
    const std::string text = written(write_prometheus, example.metrics);
    for (
        const std::string_view line : {
            "# TYPE nginx_redis_rate_limit_requests_total counter",
            R"(nginx_redis_rate_limit_requests_total{zone="per_ip",rule="per_ip/60s",outcome="passed"} 1)",
            R"(nginx_redis_rate_limit_requests_total{zone="per_ip",rule="per_ip/60s",outcome="invalid"} 12)",
            R"(nginx_redis_rate_limit_deny_cache_hits_total{zone="per_ip",rule="per_ip/60s"} 2)",
            R"(nginx_redis_rate_limit_leases_total{zone="per_ip",rule="per_ip/60s"} 21)",
            R"(nginx_redis_rate_limit_settlements_total{zone="per_ip",rule="per_ip/60s",result="lost"} 33)",
            R"(nginx_redis_rate_limit_lease_units_total{zone="per_ip",rule="per_ip/60s",fate="used"} 23)",
            R"(nginx_redis_rate_limit_lease_units_total{zone="per_ip",rule="per_ip/60s",fate="returned"} 24)",
            R"(nginx_redis_rate_limit_lease_units_total{zone="per_ip",rule="per_ip/60s",fate="expired"} 25)",
            R"(nginx_redis_rate_limit_lease_requests_total{zone="per_ip",rule="per_ip/60s"} 26)",
            R"(nginx_redis_rate_limit_backend_checks_total{backend="default"} 21)",
            R"(nginx_redis_rate_limit_backend_errors_total{backend="default",class="breaker"} 4)",
            R"(nginx_redis_rate_limit_backend_up{backend="default"} 1)",
            R"(nginx_redis_rate_limit_backend_pending{backend="default"} 8)",
            R"(nginx_redis_rate_limit_backend_reconnects_total{backend="default"} 6)",
            R"(nginx_redis_rate_limit_live_limits_followed{backend="default"} 1)",
            "# TYPE nginx_redis_rate_limit_check_duration_seconds histogram",
            R"(nginx_redis_rate_limit_check_duration_seconds_bucket{backend="default",le="0.000256"} 0)",
            R"(nginx_redis_rate_limit_check_duration_seconds_bucket{backend="default",le="0.000512"} 1)",
            R"(nginx_redis_rate_limit_check_duration_seconds_bucket{backend="default",le="16.777216"} 2)",
            R"(nginx_redis_rate_limit_check_duration_seconds_bucket{backend="default",le="+Inf"} 2)",
            R"(nginx_redis_rate_limit_check_duration_seconds_sum{backend="default"} 0.0018)",
            R"(nginx_redis_rate_limit_check_duration_seconds_count{backend="default"} 2)",
            R"(nginx_redis_rate_limit_zone_used_bytes{zone="per_ip"} 20000)",
            R"(nginx_redis_rate_limit_zone_size_bytes{zone="per_ip"} 1048576)",
            R"(nginx_redis_rate_limit_zone_evictions_total{zone="per_ip"} 3)",
            R"(nginx_redis_rate_limit_overrides{zone="per_ip"} 31)",
            R"(nginx_redis_rate_limit_override_rejections_total{zone="per_ip"} 32)",
            R"(nginx_redis_rate_limit_overrides_dropped_total{zone="per_ip"} 33)",
        }) {
        EXPECT_NE(("\n" + text).find("\n" + std::string(line) + "\n"), std::string::npos) << line;
    }
}

TEST(MetricsTest, NoLineOfPrometheusStandsTwice) {
    const Example example;
    std::istringstream lines(written(write_prometheus, example.metrics));
    std::set<std::string> seen;
    for (std::string line; std::getline(lines, line);) {
        EXPECT_TRUE(seen.insert(line.substr(0, line.rfind(' '))).second) << line;
    }
}

TEST(MetricsTest, ABackendIsUpOnlyWithAConnection) {
    for (const auto &[state, name] : {std::pair(BackendState::idle, R"("state": "idle")"),
                                      std::pair(BackendState::down, R"("state": "down")")}) {
        Example example;
        example.backends[0].counts.state = state;
        EXPECT_NE(written(write_json, example.metrics).find(name), std::string::npos);
        EXPECT_NE(
            written(write_prometheus, example.metrics).find("backend_up{backend=\"default\"} 0"),
            std::string::npos);
    }
}

} // namespace
} // namespace rate_limit
