#include "nginx_module/http/response_filter.hpp"

#include "nginx_module/decisions/variable_value.hpp"
#include "nginx_module/http/request_context.hpp"
#include "nginx_module/http/request_state.hpp"
#include "nginx_module/log_text.hpp"
#include "nginx_module/util.hpp"
#include "rate_limit/response/body_scanner.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <type_traits>

namespace nginx_module {

namespace {

/// Says that a response has something else where a number was expected, at most once a second.
void log_ignored_value(ngx_http_request_t *r, std::string_view path) {
    static time_t last = 0;
    if (is_due(last, 1)) {
        ngx_str_t shown = to_ngx(path);
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "redis_rate_limit_response_value: the response has no whole number at %V, "
                      "which is ignored",
                      &shown);
    }
}

/// Warns of a response that cannot be read because it is encoded, at most once a minute.
void log_encoded_response(ngx_http_request_t *r, std::string_view encoding) {
    constexpr time_t minute = 60;
    static time_t last = 0;
    if (is_due(last, minute)) {
        LogText<64> shown(encoding);
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "redis_rate_limit_response_value: the response has Content-Encoding \"%V\" "
                      "and is not read, expected none: proxy_set_header Accept-Encoding \"\";",
                      shown.shown());
    }
}

/// Whether the request has reserved units that a final cost settles.
bool has_reservation(ngx_http_request_t *r) {
    const RequestState *state = RequestState::find(r);
    bool has_one = false;
    if (state != nullptr) {
        state->rules().for_each_charged([&has_one](const limiter::AppliedRule &applied) {
            has_one = has_one || applied.rule->has_final_cost();
        });
    }
    return has_one;
}

/// Warns of a successful response that does not tell what its request has used, at most once a
/// minute.
void log_missing_value(ngx_http_request_t *r, ngx_str_t &variable) {
    constexpr time_t minute = 60;
    static time_t last = 0;
    const ngx_uint_t status = r->headers_out.status;
    const bool is_success = status >= NGX_HTTP_OK && status < NGX_HTTP_SPECIAL_RESPONSE;
    if (is_success && has_reservation(r) && is_due(last, minute)) {
        LogText<64> type(view(r->headers_out.content_type));
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "redis_rate_limit_response_value: the response of type \"%V\" has no number "
                      "for $%V, so that the reservation stays",
                      type.shown(), &variable);
    }
}

ngx_http_output_header_filter_pt next_header_filter = nullptr;
ngx_http_output_body_filter_pt next_body_filter = nullptr;

using rate_limit::BodyFormat;

ngx_str_t &name_of(ngx_http_request_t *r, const ResponseValues::Value &value) {
    return main_conf(r).response_variables[value.variable]->name;
}

/// What is read of a response. Lives in the request's pool, and is found again after an internal
/// redirect, such as that of post_action, for which nginx forgets the contexts of modules.
class ResponseReading {
  public:
    /// Returns null if there is none.
    static ResponseReading *find(ngx_http_request_t *r);
    /// Returns null if memory ran out.
    static ResponseReading *find_or_create(ngx_http_request_t *r);

    /// `values` are those of the location that sends the response.
    void begin(const ResponseValues &values, BodyFormat format) {
        values_ = &values;
        scanner_.emplace(format, values.paths);
    }
    /// Forgets a response in whose place another one is sent.
    void forget() { scanner_.reset(); }

    void read(ngx_http_request_t *r, const ngx_chain_t *body);
    std::optional<uint64_t> value_of(size_t variable) const;

  private:
    void log_missing(ngx_http_request_t *r) const;

    const ResponseValues *values_ = nullptr;
    std::optional<rate_limit::BodyScanner> scanner_; // nothing: no response is read
};
static_assert(std::is_trivially_destructible_v<ResponseReading>);
static_assert(sizeof(ResponseReading) <= 1024, "docs/token-budgets.md promises that");

ResponseReading *ResponseReading::find(ngx_http_request_t *r) {
    return find_context<ResponseReading>(r, ngx_http_redis_rate_limit_response_module,
                                         destroy<ResponseReading>);
}

ResponseReading *ResponseReading::find_or_create(ngx_http_request_t *r) {
    ResponseReading *reading = find(r);
    if (reading == nullptr) {
        reading = pool_new<ResponseReading>(r->pool, destroy<ResponseReading>);
        ngx_http_set_ctx(r, reading, ngx_http_redis_rate_limit_response_module);
    }
    return reading;
}

void ResponseReading::read(ngx_http_request_t *r, const ngx_chain_t *body) {
    if (!scanner_) {
        return;
    }
    bool is_last = false;
    for (; body != nullptr; body = body->next) {
        const ngx_buf_t *buffer = body->buf;
        is_last = is_last || buffer->last_buf;
        if (ngx_buf_in_memory(buffer)) {
            scanner_->scan({reinterpret_cast<const char *>(buffer->pos),
                            static_cast<size_t>(buffer->last - buffer->pos)});
        }
    }
    if (const rate_limit::PathSet ignored = scanner_->take_ignored()) {
        log_ignored_value(r, values_->paths[std::countr_zero(ignored)].text);
    }
    if (is_last) {
        log_missing(r);
    }
}

void ResponseReading::log_missing(ngx_http_request_t *r) const {
    const auto is_missing = [this](const ResponseValues::Value &value) {
        return !value.expression.value(scanner_->numbers());
    };
    const auto missing = std::ranges::find_if(values_->values, is_missing);
    if (missing != values_->values.end()) {
        log_missing_value(r, name_of(r, *missing));
    }
}

std::optional<uint64_t> ResponseReading::value_of(size_t variable) const {
    if (!scanner_) {
        return std::nullopt;
    }
    const auto value =
        std::ranges::find(values_->values, variable, &ResponseValues::Value::variable);
    return value != values_->values.end() ? value->expression.value(scanner_->numbers())
                                          : std::nullopt;
}

/// Whether the response that is about to be sent has a body, whole and not encoded.
bool has_readable_body(ngx_http_request_t *r) {
    const auto &headers = r->headers_out;
    const bool has_no_body = r->header_only || r->method == NGX_HTTP_HEAD ||
                             headers.status == NGX_HTTP_SWITCHING_PROTOCOLS ||
                             headers.status == NGX_HTTP_NO_CONTENT ||
                             headers.status == NGX_HTTP_NOT_MODIFIED;
    if (has_no_body || headers.status == NGX_HTTP_PARTIAL_CONTENT) {
        return false;
    }
    const ngx_table_elt_t *encoding = headers.content_encoding;
    const bool is_encoded = encoding != nullptr && encoding->value.len > 0;
    if (is_encoded && rate_limit::body_format_of(view(headers.content_type))) {
        log_encoded_response(r, view(encoding->value));
    }
    return !is_encoded;
}

ngx_int_t header_filter(ngx_http_request_t *r) noexcept {
    if (r != r->main) {
        return next_header_filter(r);
    }
    if (ResponseReading *reading = ResponseReading::find(r)) {
        reading->forget();
    }
    const ResponseValues *values = location_conf(r).response_values;
    if (values == nullptr || !has_readable_body(r)) {
        return next_header_filter(r);
    }
    const auto format = rate_limit::body_format_of(view(r->headers_out.content_type));
    if (!format) {
        log_missing_value(r, name_of(r, values->values.front()));
        return next_header_filter(r);
    }
    ResponseReading *reading = ResponseReading::find_or_create(r);
    if (reading == nullptr) {
        return NGX_ERROR;
    }
    const ngx_int_t result = next_header_filter(r);
    // A later filter may have made it a 206, of which the body filter sees the ranges alone.
    const bool is_sent = result == NGX_OK || result == NGX_AGAIN;
    if (is_sent && !r->header_only && r->headers_out.status != NGX_HTTP_PARTIAL_CONTENT) {
        reading->begin(*values, *format);
        r->filter_need_in_memory = 1; // the copy filter asks for it at the body's first part
    }
    return result;
}

ngx_int_t body_filter(ngx_http_request_t *r, ngx_chain_t *body) noexcept {
    auto *reading = static_cast<ResponseReading *>(
        ngx_http_get_module_ctx(r, ngx_http_redis_rate_limit_response_module));
    if (reading != nullptr && r == r->main) {
        reading->read(r, body);
    }
    return next_body_filter(r, body);
}

ngx_int_t get_value(ngx_http_request_t *r, ngx_http_variable_value_t *value,
                    uintptr_t variable) noexcept {
    const ResponseReading *reading = ResponseReading::find(r->main);
    const auto number = reading != nullptr ? reading->value_of(variable) : std::nullopt;
    return number ? set_number(r->pool, *value, *number) : set_not_found(*value);
}

} // namespace

void set_response_variables(const HttpMainConf &conf) {
    for (size_t i = 0; i < conf.response_variables.size(); ++i) {
        conf.response_variables[i]->get_handler = get_value;
        conf.response_variables[i]->data = i;
    }
}

void add_response_filters() {
    next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = header_filter;
    next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = body_filter;
}

} // namespace nginx_module
