#include "nginx_module/http/headers_filter.hpp"

#include "nginx_module/http/add_header.hpp"
#include "nginx_module/http/configuration.hpp"
#include "nginx_module/http/request_state.hpp"
#include "nginx_module/util.hpp"
#include "rate_limit/text/header_values.hpp"
#include "rate_limit/text/text_writer.hpp"

#include <algorithm>

namespace nginx_module {

ngx_http_output_header_filter_pt next_headers_filter = nullptr;

namespace {

using rate_limit::Decision;

constexpr std::string_view retry_after = "Retry-After";
constexpr std::string_view x_limit = "X-RateLimit-Limit";
constexpr std::string_view x_remaining = "X-RateLimit-Remaining";
constexpr std::string_view x_reset = "X-RateLimit-Reset";
constexpr std::string_view policy = "RateLimit-Policy";
constexpr std::string_view limit = "RateLimit";

/// Removes a header of that name that an upstream has sent.
void remove(ngx_http_request_t *r, std::string_view name) {
    for (ngx_list_part_t *part = &r->headers_out.headers.part; part != nullptr; part = part->next) {
        auto *headers = static_cast<ngx_table_elt_t *>(part->elts);
        for (ngx_table_elt_t &header : std::span(headers, part->nelts)) {
            if (header.key.len == name.size() &&
                ngx_strncasecmp(header.key.data, to_ngx(name).data, name.size()) == 0) {
                header.hash = 0;
            }
        }
    }
}

/// Sets a header. `value` is in the request's pool or static; if its data is null, memory ran out
/// for it. Returns false if memory ran out.
bool set(ngx_http_request_t *r, std::string_view name, ngx_str_t value) {
    remove(r, name);
    return value.data != nullptr && add_header(r, name, view(value));
}

bool set(ngx_http_request_t *r, std::string_view name, uint64_t number) {
    rate_limit::NumberBuffer digits;
    const std::string_view text = rate_limit::write_number(number, digits);
    ngx_str_t shown = to_ngx(text);
    return set(r, name, {text.size(), ngx_pstrdup(r->pool, &shown)});
}

bool set_x_headers(ngx_http_request_t *r, const limiter::AppliedRule &tightest) {
    const rate_limit::Verdict &verdict = tightest.charge->verdict;
    return set(r, x_limit, tightest.verdict_quota().capacity()) &&
           set(r, x_remaining, verdict.remaining) &&
           set(r, x_reset, rate_limit::seconds_up(verdict.reset));
}

/// The text of a header that is a list of items, in the request's pool.
class ItemList {
  public:
    ItemList(ngx_http_request_t *r, size_t room)
        : text_{0, static_cast<u_char *>(ngx_pnalloc(r->pool, room))} {}

    bool has_memory() const { return text_.data != nullptr; }
    const ngx_str_t &text() const { return text_; }

    void add(std::string_view item) {
        append(text_.len > 0 ? ", " : "");
        append(item);
    }

  private:
    void append(std::string_view part) {
        ngx_memcpy(text_.data + text_.len, part.data(), part.size());
        text_.len += part.size();
    }

    ngx_str_t text_;
};

/// Makes a verdict agree with Retry-After: if the request is denied, the next unit of any rule is
/// promised for that time at the latest.
rate_limit::Verdict within_wait(rate_limit::Verdict verdict, const rate_limit::Verdict &tightest) {
    if (tightest.decision == Decision::denied) {
        verdict.next_unit = std::min(verdict.next_unit, tightest.retry_after);
    }
    return verdict;
}

bool set_ietf_headers(ngx_http_request_t *r, const limiter::AppliedRule *applied,
                      const limiter::AppliedRule &tightest) {
    constexpr size_t item_room = sizeof(rate_limit::ItemBuffer) + 2;
    size_t room = 0;
    for (const limiter::AppliedRule *one = applied; one != nullptr; one = one->next) {
        room += item_room;
    }
    ItemList policies(r, room);
    ItemList limits(r, room);
    if (!policies.has_memory() || !limits.has_memory()) {
        return false;
    }
    for (; applied != nullptr; applied = applied->next) {
        const rate_limit::Verdict *verdict = applied->verdict();
        if (verdict != nullptr && !applied->dry_run && !applied->is_superseded) {
            rate_limit::ItemBuffer item;
            const std::string_view name = applied->rule->name;
            policies.add(
                rate_limit::write_rate_limit_policy_item(name, applied->verdict_quota(), item));
            limits.add(rate_limit::write_rate_limit_item(
                name, within_wait(*verdict, tightest.charge->verdict), item));
        }
    }
    return set(r, policy, policies.text()) && set(r, limit, limits.text());
}

bool set_headers(ngx_http_request_t *r, const RequestState &state) {
    const limiter::AppliedRule *tightest = state.rules().tightest();
    if (tightest == nullptr || tightest->dry_run) {
        return true;
    }
    const Headers headers(location_conf(r).headers);
    const rate_limit::Verdict &verdict = tightest->charge->verdict;
    if (verdict.decision == Decision::denied && headers.most_seconds() > 0 &&
        !set(r, retry_after,
             std::min<uint64_t>(rate_limit::seconds_up(verdict.retry_after),
                                headers.most_seconds()))) {
        return false;
    }
    if (tightest->ban) {
        return true;
    }
    return (!headers.has(x_headers) || set_x_headers(r, *tightest)) &&
           (!headers.has(ietf_headers) || set_ietf_headers(r, state.rules().first(), *tightest));
}

} // namespace

ngx_int_t headers_filter(ngx_http_request_t *r) noexcept {
    if (r == r->main) {
        const RequestState *state = RequestState::find(r);
        if (state != nullptr && !set_headers(r, *state)) {
            return NGX_ERROR;
        }
    }
    return next_headers_filter(r);
}

} // namespace nginx_module
