// The configuration: directives fill it in, and requests read it.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/conf/tls_context.hpp"
#include "nginx_module/memory/zone_memory.hpp"
#include "rate_limit/settings/rule_parameters.hpp"
#include "rate_limit/settings/zone_parameters.hpp"
#include "redis_client/link/backend_settings.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nginx_module {

/// The settings of a `redis_rate_limit_backend`, and what of it is nginx's own.
struct BackendConf : redis_client::BackendSettings {
    using BackendSettings::BackendSettings;

    ngx_resolver_t *resolver = nullptr; // null: nginx resolved the names when it started
    TlsSettings tls_settings;
    std::unique_ptr<TlsContext> tls; // null: connections use no TLS
};

using rate_limit::all_phases;
using rate_limit::OnError;
using rate_limit::Phase;
using rate_limit::ShowKeys;

/// The place of a directive in the configuration's files, for messages about it that come only
/// after all directives have been read.
struct Position {
    explicit Position(const ngx_conf_t *cf)
        : file(cf->conf_file->file.name), line(cf->conf_file->line) {}
    ngx_str_t file;
    ngx_uint_t line;
};

struct RuleConf;

struct ZoneConf : rate_limit::ZoneParameters {
    explicit ZoneConf(const ngx_conf_t *cf) : position(cf) {}

    Position position;
    ngx_http_complex_value_t key{};
    bool key_is_binary_address = false; // it is $binary_remote_addr; logs show it as text
    /// To how many bits it cuts an IPv6 address, if it is a variable that does nothing else:
    /// $redis_rate_limit_addr or $redis_rate_limit_addr_BITS.
    std::optional<unsigned> key_network_bits{};
    BackendConf *backend = nullptr;        // set by link_configuration()
    std::vector<RuleConf *> named_rules{}; // the first of each name; set like `backend`
    ZoneMemory memory;

    /// Returns what the shared memory stores of the keys that are rejected most. It is not more
    /// than may be shown.
    rate_limit::TopKeys::Kept kept_top_keys() const;
};

struct RuleConf : rate_limit::RuleParameters {
    explicit RuleConf(const ngx_conf_t *cf) : position(cf) {}

    Position position;
    // The compiled texts of RuleParameters. Null: there is none.
    ngx_http_complex_value_t *limit = nullptr;
    ngx_http_complex_value_t *burst = nullptr;
    ngx_http_complex_value_t *cost = nullptr;
    ngx_http_complex_value_t *final_cost = nullptr;

    // The members below are set by link_configuration(), after all directives have been read.
    const ZoneConf *zone = nullptr;
    std::optional<rate_limit::KeyFormat> key_format;
    // Unused with variables, which requests give:
    std::vector<redis_client::WireWords> arguments;           // one for each shard
    std::chrono::microseconds lease_time{0};                  // 0: nothing is leased
    std::optional<redis_client::WireWords> leasing_arguments; // of a check that may lease units
    std::optional<redis_client::WireWords> fetch_arguments;   // of one that does nothing else

    std::string name;
    std::string limit_label;                      // shown_limit(), for metrics
    RuleConf *first_of_name = nullptr;            // the zone's first rule of this name
    rate_limit::RuleCounters *counters = nullptr; // only first_of_name has them
    bool is_refunded = false; // a charge of its counter may be given back a moment later
    bool may_settle = false;  // a rule of its counter has a final cost

    /// Whether these are the arguments of all checks of the rule.
    bool owns(const redis_client::WireWords &given) const;
    /// Whether a check of the rule may lease units, if the request's variables allow it.
    bool may_lease() const { return rule.lease.kind != rate_limit::LeaseSetting::Kind::off; }
};

/// Whether one check asks for both rules, if both apply to a request. In a cluster their keys must
/// be in one hash slot for that, as the keys of one zone are if the rules have no shards.
bool are_asked_together(const RuleConf &rule, const RuleConf &other);

/// The rules of one level of the configuration, which apply together.
using RuleList = std::vector<const RuleConf *>;

struct LocationConf;

struct MainConf {
    std::vector<std::unique_ptr<BackendConf>> backends;
    std::vector<std::unique_ptr<ZoneConf>> zones;
    std::vector<std::unique_ptr<RuleConf>> rules;
    std::vector<std::unique_ptr<RuleList>> rule_lists;
    std::vector<const LocationConf *> locations;

    BackendConf &add_backend(std::string name);
    BackendConf *backend(std::string_view name) const;
    ZoneConf *zone(std::string_view name) const;
};

/// The header families that a response can get. The values are bits of a set.
enum HeaderFamily : ngx_uint_t { no_headers = 0, x_headers = 1, ietf_headers = 2 };

/// What a location's `redis_rate_limit_api` lets operators do.
enum class ApiAccess : uint8_t { none, read, write };

/// What of this module a location serves. It is inherited by the location's `if` and `limit_except`
/// blocks alone, as what proxy_pass says is.
struct PageConf {
    ngx_http_handler_pt handler = nullptr; // null: nothing
    ApiAccess api = ApiAccess::none;
    std::string_view dashboard_api; // the path of the API that the dashboard asks; empty: none
};

struct LocationConf {
    RuleList *rules; // its own or inherited; null: no rule was given, empty: `off`
    ngx_flag_t dry_run;
    ngx_flag_t problem; // rejections have the body that RFC 9457 describes
    ngx_uint_t status;
    ngx_uint_t log_level;
    ngx_uint_t headers; // bits of HeaderFamily
    PageConf page;

    bool is_dry_run(const RuleConf &rule) const { return dry_run == 1 || rule.dry_run; }
};

void *create_main_conf(ngx_conf_t *cf) noexcept;
// location_directives.cpp
void *create_location_conf(ngx_conf_t *cf) noexcept;
char *merge_location_conf(ngx_conf_t *cf, void *outer, void *inner) noexcept;

inline MainConf &main_conf(ngx_conf_t *cf) {
    return *static_cast<MainConf *>(
        ngx_http_conf_get_module_main_conf(cf, ngx_http_redis_rate_limit_module));
}

inline const LocationConf &location_conf(ngx_http_request_t *r) {
    return *static_cast<const LocationConf *>(
        ngx_http_get_module_loc_conf(r, ngx_http_redis_rate_limit_module));
}

} // namespace nginx_module
