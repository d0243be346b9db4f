// What a location says beside its rules, and how requests find their configuration.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/conf/configuration.hpp"
#include "rate_limit/response/value_expression.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace nginx_module {

/// The header families that a response can get. The values are bits of a set.
enum HeaderFamily : ngx_uint_t { no_headers = 0, x_headers = 1, ietf_headers = 2 };

/// What `redis_rate_limit_headers` says, as one number, as the values of a location are.
class Headers {
  public:
    /// More than any wait, and so no bound.
    static constexpr ngx_uint_t unbounded = NGX_MAX_UINT32_VALUE >> 2;

    constexpr explicit Headers(ngx_uint_t value) : value_(value) {}
    /// `most_seconds` are those that Retry-After may have. 0: there is no such field.
    constexpr Headers(ngx_uint_t families, ngx_uint_t most_seconds)
        : value_(families | most_seconds << 2) {}

    constexpr ngx_uint_t value() const { return value_; }
    constexpr bool has(HeaderFamily family) const { return (value_ & family) != 0; }
    constexpr ngx_uint_t most_seconds() const { return value_ >> 2; }

  private:
    ngx_uint_t value_;
};

/// What a location's `redis_rate_limit_api` lets operators do.
enum class ApiAccess : uint8_t { none, read, write };

/// What of this module a location serves. It is inherited by the location's `if` and `limit_except`
/// blocks alone, as what proxy_pass says is.
struct PageConf {
    ngx_http_handler_pt handler = nullptr; // null: nothing
    ApiAccess api = ApiAccess::none;
    std::string_view dashboard_api; // the path of the API that the dashboard asks; empty: none
};

/// The redis_rate_limit_response_value lines of a level.
struct ResponseValues {
    struct Value {
        size_t variable; // of HttpMainConf::response_variables
        rate_limit::ValueExpression expression;
    };
    rate_limit::JsonPaths paths; // of all its expressions
    std::vector<Value> values;
};

struct LocationConf : LevelConf {
    ResponseValues *response_values; // its own or inherited; null: there are none
    ngx_uint_t problem;              // rejections have the body that RFC 9457 describes
    ngx_uint_t status;
    ngx_uint_t headers; // the value of Headers
    PageConf page;
};

struct HttpMainConf : MainConf {
    using MainConf::MainConf;

    /// A location, or a server itself, which nginx treats as a location without a name.
    struct Place {
        const LocationConf *conf;
        const ngx_http_core_loc_conf_t *core;
        const ngx_http_core_srv_conf_t *server;
        void **confs;       // of all modules for it
        bool has_own_rules; // none that are inherited
    };

    std::vector<std::unique_ptr<ResponseValues>> response_values;
    std::vector<ngx_http_variable_t *> response_variables; // each name once
    std::vector<Place> places;
    std::vector<ngx_uint_t> field_variables; // nginx's numbers of those that are used
};

extern const Context http_context;

void *create_main_conf(ngx_conf_t *cf) noexcept;
// location_directives.cpp
void *create_location_conf(ngx_conf_t *cf) noexcept;
char *merge_location_conf(ngx_conf_t *cf, void *outer, void *inner) noexcept;
char *set_rule(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
// response_value_directive.cpp
char *set_response_value(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;

inline constexpr size_t location_command_count = 5;
/// The directives that set one value of a location, each with its function: they are the rows of
/// the table in location_directives.cpp.
std::span<const ngx_command_t, location_command_count> location_commands();

/// nginx has it as a pointer to MainConf, which the functions of directives take.
inline HttpMainConf &main_conf(ngx_conf_t *cf) {
    return *static_cast<HttpMainConf *>(static_cast<MainConf *>(
        ngx_http_conf_get_module_main_conf(cf, ngx_http_redis_rate_limit_module)));
}

inline const HttpMainConf &main_conf(ngx_http_request_t *r) {
    return *static_cast<const HttpMainConf *>(static_cast<const MainConf *>(
        ngx_http_get_module_main_conf(r, ngx_http_redis_rate_limit_module)));
}

inline const LocationConf &location_conf(ngx_http_request_t *r) {
    return *static_cast<const LocationConf *>(
        ngx_http_get_module_loc_conf(r, ngx_http_redis_rate_limit_module));
}

} // namespace nginx_module
