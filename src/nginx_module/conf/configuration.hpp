// The configuration: directives fill it in, and requests read it.
#pragma once

#include "nginx_module/ngx.hpp"

#include "limiter/configuration.hpp"
#include "nginx_module/conf/tls_context.hpp"
#include "nginx_module/memory/slab_mutex.hpp"
#include "rate_limit/response/value_expression.hpp"
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

struct ZoneConf : limiter::Zone {
    explicit ZoneConf(const ngx_conf_t *cf) : position(cf) {}

    Position position;
    ngx_http_complex_value_t key{};
    SlabMutex mutex; // of its shared memory
};

struct RuleConf : limiter::Rule {
    explicit RuleConf(const ngx_conf_t *cf) : position(cf) {}

    Position position;
    // The compiled texts of RuleParameters. Null: there is none.
    ngx_http_complex_value_t *limit = nullptr;
    ngx_http_complex_value_t *burst = nullptr;
    ngx_http_complex_value_t *cost = nullptr;
    ngx_http_complex_value_t *final_cost = nullptr;

    const ngx_http_complex_value_t *text(limiter::RuleText which) const {
        switch (which) {
        case limiter::RuleText::limit:
            return limit;
        case limiter::RuleText::burst:
            return burst;
        case limiter::RuleText::cost:
            return cost;
        case limiter::RuleText::final_cost:
            break;
        }
        return final_cost;
    }
};

using limiter::RuleList;

/// The redis_rate_limit_response_value lines of a level.
struct ResponseValues {
    struct Value {
        size_t variable; // of MainConf::response_variables
        rate_limit::ValueExpression expression;
    };
    rate_limit::JsonPaths paths; // of all its expressions
    std::vector<Value> values;
};

struct LocationConf;

struct MainConf {
    std::vector<std::unique_ptr<BackendConf>> backends;
    std::vector<std::unique_ptr<ZoneConf>> zones;
    std::vector<std::unique_ptr<RuleConf>> rules;
    std::vector<std::unique_ptr<RuleList>> rule_lists;
    std::vector<const LocationConf *> locations;
    std::vector<std::unique_ptr<ResponseValues>> response_values;
    std::vector<ngx_http_variable_t *> response_variables; // each name once

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
    RuleList *rules;                 // its own or inherited; null: no rule was given, empty: `off`
    ResponseValues *response_values; // its own or inherited; null: there are none
    ngx_uint_t dry_run;
    ngx_uint_t problem; // rejections have the body that RFC 9457 describes
    ngx_uint_t status;
    ngx_uint_t log_level;
    ngx_uint_t headers; // bits of HeaderFamily
    PageConf page;

    bool is_dry_run(const limiter::Rule &rule) const { return dry_run == 1 || rule.dry_run; }
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
