#include "nginx_module/pages/api/page.hpp"

#include "nginx_module/pages/api/actions.hpp"
#include "nginx_module/pages/api/body.hpp"
#include "nginx_module/pages/page_response.hpp"
#include "nginx_module/util.hpp"
#include "rate_limit/text/url_text.hpp"
#include "redis_client/control/peek.hpp"

#include <algorithm>
#include <array>
#include <new>

namespace nginx_module {

namespace {

/// Something below the location, and what can be done with it. An action that it does not have is
/// null.
struct Resource {
    std::string_view path;
    ApiParameterSet needed;
    ApiParameterSet optional;
    ApiAction get = nullptr;
    ApiAction put = nullptr;
    ApiAction remove = nullptr;
};

constexpr Resource resources[] = {
    {.path = "zones", .needed = {}, .optional = {}, .get = list_zones},
    {.path = "key",
     .needed = {ApiParameter::zone, ApiParameter::key},
     .optional = {},
     .get = show_key,
     .remove = reset_key},
    {.path = "override",
     .needed = {ApiParameter::zone, ApiParameter::key},
     .optional = {ApiParameter::rule},
     .put = put_override,
     .remove = remove_override},
    {.path = "overrides",
     .needed = {ApiParameter::zone},
     .optional = {ApiParameter::cursor},
     .get = list_overrides},
    {.path = "rule",
     .needed = {ApiParameter::zone, ApiParameter::rule},
     .optional = {},
     .put = put_override,
     .remove = remove_override},
};

bool may_write(ngx_http_request_t *r) {
    return location_conf(r).page.api == ApiAccess::write;
}

/// Returns what the request asks for, or null.
const Resource *find_resource(ngx_http_request_t *r) {
    const auto &core = *static_cast<const ngx_http_core_loc_conf_t *>(
        ngx_http_get_module_loc_conf(r, ngx_http_core_module));
    const std::string_view path = view(r->uri);
    const std::string_view location = view(core.name);
    if (!path.starts_with(location)) {
        return nullptr;
    }
    const auto *const found =
        std::ranges::find(resources, path.substr(location.size()), &Resource::path);
    const bool is_readable = found != std::end(resources) && found->get != nullptr;
    const bool is_read = (r->method & (NGX_HTTP_GET | NGX_HTTP_HEAD)) != 0;
    // What can only be written is not there for those who read where nobody may write.
    const bool is_there = is_readable || may_write(r) || !is_read;
    return found != std::end(resources) && is_there ? found : nullptr;
}

/// Returns the action that the request's method stands for, or null if there is none, or if it
/// would write where nobody may.
ApiAction find_action(ngx_http_request_t *r, const Resource &resource) {
    switch (r->method) {
    case NGX_HTTP_GET:
    case NGX_HTTP_HEAD:
        return resource.get;
    case NGX_HTTP_PUT:
        return may_write(r) ? resource.put : nullptr;
    case NGX_HTTP_DELETE:
        return may_write(r) ? resource.remove : nullptr;
    default:
        return nullptr;
    }
}

std::string_view methods_of(const Resource &resource) {
    static constexpr std::string_view with_put[] = {"PUT", "PUT, DELETE", "GET, HEAD, PUT",
                                                    "GET, HEAD, PUT, DELETE"};
    static constexpr std::string_view without_put[] = {"", "DELETE", "GET, HEAD",
                                                       "GET, HEAD, DELETE"};
    const size_t others = (resource.get != nullptr ? 2 : 0) + (resource.remove != nullptr ? 1 : 0);
    return resource.put != nullptr ? with_put[others] : without_put[others];
}

ApiError not_allowed(ngx_http_request_t *r, const Resource &resource) {
    ApiError error{.status = NGX_HTTP_NOT_ALLOWED,
                   .name = "method_not_allowed",
                   .description = "method, expected one of those that Allow names",
                   .allowed_methods = methods_of(resource)};
    if (!may_write(r)) {
        error.description = "method, expected GET or HEAD, for this location has "
                            "redis_rate_limit_api without write";
        error.allowed_methods = "GET, HEAD";
    }
    return error;
}

/// Whether a browser says that a page of another site has made the request.
bool is_of_another_site(ngx_http_request_t *r) {
    constexpr std::string_view name = "sec-fetch-site";
    for (const ngx_list_part_t *part = &r->headers_in.headers.part; part != nullptr;
         part = part->next) {
        const std::span headers(static_cast<const ngx_table_elt_t *>(part->elts), part->nelts);
        for (const ngx_table_elt_t &header : headers) {
            const std::string_view site = view(header.value);
            const bool is_it =
                header.key.len == name.size() && view({name.size(), header.lowcase_key}) == name;
            if (is_it && site != "same-origin" && site != "none") {
                return true;
            }
        }
    }
    return false;
}

void find_zone(ApiRequest &request, std::string_view name) {
    for (const ShownLimits &limits : AllLimits()) {
        if (const limiter::Zone *zone = limits.conf->zone(name)) {
            request.zone = zone;
            request.limits = limits;
        }
    }
}

/// Finds what the parameters name. Returns what is wrong with them.
std::optional<ApiError> read_parameters(ApiRequest &request, const Resource &resource,
                                        ApiAction action) {
    ngx_http_request_t *r = request.r;
    ApiParameters parameters;
    if (auto error = parameters.read(r, resource.needed, resource.optional)) {
        return error;
    }
    request.cursor = parameters[ApiParameter::cursor];
    if (!parameters[ApiParameter::zone]) {
        return std::nullopt;
    }
    find_zone(request, *parameters[ApiParameter::zone]);
    if (request.zone == nullptr) {
        const rate_limit::Readable shown{*parameters[ApiParameter::zone], rate_limit::longest_name};
        return ApiError{NGX_HTTP_NOT_FOUND, "unknown_zone",
                        describe(r->pool, "unknown zone \"", shown, "\"")};
    }
    if (const auto name = parameters[ApiParameter::rule]) {
        const auto &rules = request.zone->named_rules;
        const auto found = std::ranges::find(rules, *name, &limiter::Rule::name);
        if (found == rules.end()) {
            const rate_limit::Readable shown{*name, rate_limit::longest_name};
            return ApiError{NGX_HTTP_NOT_FOUND, "unknown_rule",
                            describe(r->pool, "unknown rule \"", shown, "\" of zone \"",
                                     request.zone->name, "\"")};
        }
        request.rule = *found;
    }
    if (!parameters[ApiParameter::key] && !parameters[ApiParameter::key_sha256]) {
        return std::nullopt;
    }
    const auto client_key =
        read_client_key(r, *request.zone, parameters,
                        action == remove_override ? KeyOf::stored_override : KeyOf::client);
    if (const auto *error = std::get_if<ApiError>(&client_key)) {
        return *error;
    }
    request.key = *std::get_if<ClientKey>(&client_key);
    return std::nullopt;
}

} // namespace

void prepare_api() {
    redis_client::prepare_peeks();
}

ngx_int_t api_handler(ngx_http_request_t *r) noexcept {
    if (skips_access(r)) {
        return send_error(r, {NGX_HTTP_FORBIDDEN, "subrequest", "expected no subrequest"});
    }
    const Resource *resource = find_resource(r);
    if (resource == nullptr) {
        return send_error(r, {NGX_HTTP_NOT_FOUND, "not_found", "there is nothing at this path"});
    }
    const ApiAction action = find_action(r, *resource);
    if (action == nullptr) {
        return send_error(r, not_allowed(r, *resource));
    }
    const bool is_write = action != resource->get;
    if (is_write && is_of_another_site(r)) {
        return send_error(r, {NGX_HTTP_FORBIDDEN, "cross_site",
                              "Sec-Fetch-Site, expected same-origin, none, or no such header"});
    }
    void *memory = ngx_palloc(r->pool, sizeof(ApiRequest));
    if (memory == nullptr) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    auto &request = *new (memory) ApiRequest(r);
    if (const auto error = read_parameters(request, *resource, action)) {
        return send_error(r, *error);
    }
    if (action == resource->put) {
        return read_api_body(request, action);
    }
    const ngx_int_t discarded = ngx_http_discard_request_body(r);
    return discarded == NGX_OK ? action(request) : discarded;
}

} // namespace nginx_module
