// The configuration as the directives leave it and requests read it.
#pragma once

#include "ngx.hpp"

#include "../redis_client/session.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nginx_module {

class Backend;

/// `redis_rate_limit_backend`: a Redis and how to talk to it.
struct BackendConf {
    explicit BackendConf(std::string a_name);
    ~BackendConf();

    std::string name;
    std::vector<ngx_addr_t> addresses; // of its one server, in the order that the resolver gave
    redis_client::SessionSettings session;
    std::string prefix = "rl:";
    std::chrono::milliseconds connect_timeout{250};
    bool is_used() const { return !session.scripts.empty(); } // by some rule
    std::unique_ptr<Backend> worker;                          // this worker's end of it
};

/// What a rule does to a request for which Redis gave no verdict in time.
enum class OnError { open, closed };

/// Where a directive stands, for messages about it that come only after all has been read.
struct Position {
    explicit Position(const ngx_conf_t *cf)
        : file(cf->conf_file->file.name), line(cf->conf_file->line) {}
    ngx_str_t file;
    ngx_uint_t line;
};

struct ZoneConf {
    explicit ZoneConf(const ngx_conf_t *cf) : position(cf) {}

    Position position;
    std::string name;
    size_t size = 0; // of its shared memory
    ngx_http_complex_value_t key{};
    bool key_is_binary_address = false; // $binary_remote_addr: bytes that logs show as an address
    std::string backend_name = "default";
    BackendConf *backend = nullptr; // set when all has been read
    OnError on_error = OnError::open;
};

struct RuleConf {
    explicit RuleConf(const ngx_conf_t *cf) : position(cf) {}

    Position position;
    rate_limit::Rule rule;

    // Set when all has been read:
    const ZoneConf *zone = nullptr;
    std::optional<redis_client::PreparedRule> prepared;
    std::string name;
    std::string policy_item; // of the RateLimit-Policy header
};

struct MainConf {
    std::vector<std::unique_ptr<BackendConf>> backends;
    std::vector<std::unique_ptr<ZoneConf>> zones;
    std::vector<std::unique_ptr<RuleConf>> rules;

    BackendConf *backend(std::string_view name) const;
    ZoneConf *zone(std::string_view name) const;
};

/// Which header families a response gets: a set of bits.
enum HeaderFamily : ngx_uint_t { no_headers = 0, x_headers = 1, ietf_headers = 2 };

struct LocationConf {
    bool has_rules;       // stated here or inherited; `off` states that there are none
    const RuleConf *rule; // null: none
    ngx_uint_t status;
    ngx_uint_t log_level;
    ngx_uint_t headers; // of HeaderFamily
};

void *create_main_conf(ngx_conf_t *cf) noexcept;
void *create_location_conf(ngx_conf_t *cf) noexcept;
char *merge_location_conf(ngx_conf_t *cf, void *outer, void *inner) noexcept;

/// Joins what the directives named: rules with their zones, zones with their backends.
/// False: told and refused.
bool link_configuration(ngx_conf_t *cf, MainConf &conf);

inline MainConf &main_conf(ngx_conf_t *cf) {
    return *static_cast<MainConf *>(
        ngx_http_conf_get_module_main_conf(cf, ngx_http_redis_rate_limit_module));
}

inline const LocationConf &location_conf(ngx_http_request_t *r) {
    return *static_cast<const LocationConf *>(
        ngx_http_get_module_loc_conf(r, ngx_http_redis_rate_limit_module));
}

} // namespace nginx_module
