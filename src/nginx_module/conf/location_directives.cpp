// A location's directives other than its rules and pages: a row of the table is all that there is
// of one, but for the value in LocationConf. And how locations inherit all they have.
#include "nginx_module/conf/configuration.hpp"
#include "nginx_module/conf/directives.hpp"
#include "nginx_module/conf/parameters.hpp"
#include "nginx_module/util.hpp"
#include "rate_limit/text/text.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>

namespace nginx_module {

namespace {

struct NamedChoice {
    std::string_view name;
    ngx_uint_t choice;
};

/// Returns the choice of that name, or nothing if there is none.
template <size_t n>
std::optional<ngx_uint_t> choose(const NamedChoice (&choices)[n], std::string_view name) {
    for (const auto &[choice_name, choice] : choices) {
        if (choice_name == name) {
            return choice;
        }
    }
    return std::nullopt;
}

/// nginx itself keeps the handler for an `if` block, but not for `limit_except`.
void inherit_page(ngx_conf_t *cf, const LocationConf &from, LocationConf &to) {
    auto &core = *static_cast<ngx_http_core_loc_conf_t *>(
        ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    if (!core.noname) {
        return;
    }
    to.page = from.page;
    if (core.lmt_excpt && core.handler == nullptr) {
        core.handler = to.page.handler;
    }
}

/// Reads the values of a directive, or says what is refused.
using Read = char *(*)(ngx_conf_t *cf, std::span<const ngx_str_t> values, ngx_uint_t &value);

char *read_status(ngx_conf_t *cf, std::span<const ngx_str_t> values, ngx_uint_t &status) {
    const auto code = rate_limit::parse_whole_number(view(values[0]), 599);
    if (!code || *code < 400) {
        return refuse(cf, "redis_rate_limit_status", "code", view(values[0]), "400 to 599");
    }
    status = *code;
    return NGX_CONF_OK;
}

char *read_log_level(ngx_conf_t *cf, std::span<const ngx_str_t> values, ngx_uint_t &log_level) {
    constexpr NamedChoice levels[] = {{"info", NGX_LOG_INFO},
                                      {"notice", NGX_LOG_NOTICE},
                                      {"warn", NGX_LOG_WARN},
                                      {"error", NGX_LOG_ERR}};
    const auto level = choose(levels, view(values[0]));
    if (!level) {
        return refuse(cf, "redis_rate_limit_log_level", "level", view(values[0]),
                      "info, notice, warn or error");
    }
    log_level = *level;
    return NGX_CONF_OK;
}

char *read_headers(ngx_conf_t *cf, std::span<const ngx_str_t> values, ngx_uint_t &headers) {
    constexpr NamedChoice families[] = {{"x", x_headers}, {"ietf", ietf_headers}};
    headers = no_headers;
    if (values.size() == 1 && view(values[0]) == "off") {
        return NGX_CONF_OK;
    }
    for (const ngx_str_t &value : values) {
        const auto family = choose(families, view(value));
        if (!family || (headers & *family) != 0) {
            return refuse(cf, "redis_rate_limit_headers", "value", view(value),
                          "off alone, or x and ietf, each once");
        }
        headers |= *family;
    }
    return NGX_CONF_OK;
}

struct LocationDirective {
    std::string_view name; // a literal
    ngx_uint_t LocationConf::*value;
    ngx_uint_t by_default;
    ngx_uint_t arguments; // how many, as nginx counts them
    Read read;            // null: it is `on` or `off`
};

constexpr LocationDirective directives[] = {
    {"redis_rate_limit_dry_run", &LocationConf::dry_run, 0, NGX_CONF_FLAG, nullptr},
    {"redis_rate_limit_problem", &LocationConf::problem, 0, NGX_CONF_FLAG, nullptr},
    {"redis_rate_limit_status", &LocationConf::status, NGX_HTTP_TOO_MANY_REQUESTS, NGX_CONF_TAKE1,
     read_status},
    {"redis_rate_limit_log_level", &LocationConf::log_level, NGX_LOG_ERR, NGX_CONF_TAKE1,
     read_log_level},
    {"redis_rate_limit_headers", &LocationConf::headers, x_headers | ietf_headers, NGX_CONF_1MORE,
     read_headers},
};

/// nginx's own function for flags is given an ngx_flag_t, which has the size of an ngx_uint_t, and
/// says by the same bits that there is no value yet.
char *set_flag(ngx_conf_t *cf, ngx_command_t *command, ngx_uint_t &flag) {
    static_assert(sizeof(ngx_flag_t) == sizeof(ngx_uint_t));
    static_assert(static_cast<ngx_uint_t>(NGX_CONF_UNSET) == NGX_CONF_UNSET_UINT);
    ngx_command_t at_once = *command;
    at_once.offset = 0;
    at_once.post = nullptr;
    return ngx_conf_set_flag_slot(cf, &at_once, &flag);
}

char *set_value(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept {
    const auto &directive = *static_cast<const LocationDirective *>(command->post);
    ngx_uint_t &value = static_cast<LocationConf *>(conf)->*directive.value;
    if (directive.read == nullptr) {
        return set_flag(cf, command, value);
    }
    const std::span<const ngx_str_t> values = words_of(cf).subspan(1);
    if (value != NGX_CONF_UNSET_UINT) {
        return refuse(cf, directive.name.data(), "second value", view(values[0]), "one on a level");
    }
    return directive.read(cf, values, value);
}

} // namespace

std::span<const ngx_command_t> location_commands() {
    static const auto commands = [] {
        constexpr ngx_uint_t everywhere =
            NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF;
        std::array<ngx_command_t, std::size(directives)> all{};
        std::ranges::transform(directives, all.begin(), [](const LocationDirective &directive) {
            return ngx_command_t{.name = to_ngx(directive.name),
                                 .type = everywhere | directive.arguments,
                                 .set = set_value,
                                 .conf = NGX_HTTP_LOC_CONF_OFFSET,
                                 .offset = 0,
                                 .post = const_cast<LocationDirective *>(&directive)};
        });
        return all;
    }();
    return commands;
}

void *create_location_conf(ngx_conf_t *cf) noexcept {
    auto *conf = pool_array<LocationConf>(cf->pool, 1);
    if (conf == nullptr) {
        return nullptr;
    }
    *conf = LocationConf{};
    for (const LocationDirective &directive : directives) {
        conf->*directive.value = NGX_CONF_UNSET_UINT;
    }
    return conf;
}

char *merge_location_conf(ngx_conf_t *cf, void *outer, void *inner) noexcept {
    const auto &from = *static_cast<const LocationConf *>(outer);
    auto &to = *static_cast<LocationConf *>(inner);
    if (to.rules == nullptr) {
        to.rules = from.rules;
    }
    if (to.response_values == nullptr) {
        to.response_values = from.response_values;
    }
    for (const auto &[name, value, by_default, arguments, read] : directives) {
        ngx_conf_merge_uint_value(to.*value, from.*value, by_default);
    }
    inherit_page(cf, from, to);
    if (to.rules != nullptr) {
        main_conf(cf).locations.push_back(&to);
    }
    return NGX_CONF_OK;
}

} // namespace nginx_module
