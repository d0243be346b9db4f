// Sets and removes overrides: of a client, of a client at a rule, or of a rule.
#include "nginx_module/pages/api/actions.hpp"
#include "nginx_module/pages/api/audit.hpp"
#include "nginx_module/pages/api/operation.hpp"
#include "nginx_module/pages/api/override_json.hpp"
#include "nginx_module/util.hpp"
#include "nginx_module/worker/worker.hpp"
#include "rate_limit/settings/override_json.hpp"
#include "rate_limit/text/text_writer.hpp"
#include "rate_limit/text/url_text.hpp"

#include <algorithm>
#include <array>

namespace nginx_module {

namespace {

using rate_limit::Override;
using rate_limit::OverrideDraft;
using std::chrono::microseconds;

redis_client::LiveName name_of(const ApiRequest &request) {
    return {.zone = request.zone->name,
            .encoded_key = request.key.encoded,
            .rule = request.rule_name()};
}

/// Makes the error for a member of the body with a wrong value, or for the whole body.
std::optional<ApiError> refusal_of(ngx_http_request_t *r, std::string_view member,
                                   std::string_view expected) {
    const rate_limit::Readable shown{member, 64};
    return ApiError{NGX_HTTP_BAD_REQUEST, "invalid_body",
                    member.empty()
                        ? describe(r->pool, "body, expected ", expected)
                        : describe(r->pool, "member \"", shown, "\", expected ", expected)};
}

/// Checks the numbers as the directive does for a rule of this host.
std::optional<ApiError> check_for_rule(ngx_http_request_t *r, const OverrideDraft &draft,
                                       const limiter::Rule &rule) {
    rate_limit::Quota quota = rule.rule.quota;
    const uint64_t largest = rate_limit::largest_limit(quota.algorithm);
    if (draft.what.limit.value_or(0) > largest) {
        return refusal_of(r, "limit",
                          describe(r->pool, "a whole number from 0 to ", largest, " with ",
                                   to_string(quota.algorithm), ", which rule \"", rule.name,
                                   "\" has"));
    }
    // A number that is too large together with one of the rule's own is clamped: see overridden().
    if (!is_bucket(quota.algorithm) || !draft.what.limit || !draft.what.burst) {
        return std::nullopt;
    }
    quota.limit = *draft.what.limit;
    quota.burst = draft.what.burst;
    if (quota.refill() > rate_limit::longest_refill) {
        return refusal_of(r, "burst",
                          describe(r->pool,
                                   "a bucket that fills, by limit and window, within 10 "
                                   "years at rule \"",
                                   rule.name, "\""));
    }
    return std::nullopt;
}

/// Checks the numbers for all rules that the override covers on this host.
std::optional<ApiError> check_for_rules(const ApiRequest &request, const OverrideDraft &draft) {
    bool has_bucket = false;
    for (const auto &rule : request.limits.conf->rules) {
        const bool is_covered = rule->zone == request.zone &&
                                (request.rule == nullptr || rule->first_of_name == request.rule);
        if (!is_covered) {
            continue;
        }
        has_bucket = has_bucket || is_bucket(rule->rule.quota.algorithm);
        if (auto error = check_for_rule(request.r, draft, *rule)) {
            return error;
        }
    }
    if (draft.what.burst && !has_bucket) {
        return refusal_of(request.r, "burst",
                          request.rule != nullptr
                              ? "no burst, for the rule is no bucket"
                              : "no burst, for no rule of the zone is a bucket");
    }
    return std::nullopt;
}

/// Writes what an override says for a log line, such as `limit 1000, burst 50, for 3600s`.
std::string_view summary_of(ngx_pool_t *pool, const OverrideDraft &draft) {
    const Override &what = draft.what;
    std::array<char, 512> buffer;
    rate_limit::TextWriter text(buffer);
    if (what.action != Override::Action::numbers) {
        text << (what.action == Override::Action::ban ? "ban" : "exempt");
    }
    if (what.limit) {
        text << "limit " << *what.limit;
    }
    if (what.burst) {
        text << (what.limit ? ", burst " : "burst ") << *what.burst;
    }
    if (draft.expires_in) {
        text << " for " << static_cast<uint64_t>(draft.expires_in->count()) << "s";
    } else {
        text << " until deleted";
    }
    if (!draft.note.empty()) {
        text << ", note '" << draft.note << "'";
    }
    return describe(pool, std::string_view(buffer.data(), text.size()));
}

/// Writes one record of the store, and tells of it.
class WriteOverride : public ApiOperation {
  protected:
    WriteOverride(ApiRequest &a_request, std::string_view what)
        : ApiOperation(a_request), author_(author_of(a_request.r)), command_(*this), what_(what) {
        command_.hash_slot = store().hash_slot();
    }
    ~WriteOverride() = default;

    const redis_client::LiveStore &store() const { return request_.live_store(); }
    std::string_view author() const { return author_; }
    const redis_client::LiveWritten &written() const { return *command_.written; }

  private:
    struct Command final : ApiCommand {
        explicit Command(const WriteOverride &an_owner) : owner(an_owner) {}
        bool write(redis_client::ByteQueue &out) const override { return owner.write_command(out); }
        bool read(redis_client::ReplyView reply) override {
            written = redis_client::read_written(reply);
            return written.has_value();
        }
        const WriteOverride &owner;
        std::optional<redis_client::LiveWritten> written;
    };

    virtual bool write_command(redis_client::ByteQueue &out) const = 0;
    virtual void write_answer(JsonWriter &json) const = 0;

    Step proceed() final {
        if (!is_sent_) {
            is_sent_ = true;
            run(command_);
            return Step::waits();
        }
        if (!command_.failure().empty()) {
            const ApiError error = command_.error(pool(), "not written");
            log_write(request_, what_,
                      describe(pool(),
                               error.is_outcome_unknown ? ", outcome unknown: " : ", failed: ",
                               command_.failure()));
            return Step::answered(send_error(request_.r, error));
        }
        log_write(request_, what_, {});
        if (const auto error = error_if_not_followed("written")) {
            return Step::answered(send_error(request_.r, *error));
        }
        JsonWriter json(pool());
        write_answer(json);
        return Step::answered(send_json(request_.r, json.finish()));
    }
    void on_abandoned() final { log_write(request_, what_, ", outcome unknown"); }

    std::string_view author_;
    Command command_;
    std::string_view what_;
    bool is_sent_ = false;
};

class PutOverride final : public WriteOverride {
  public:
    PutOverride(ApiRequest &a_request, const OverrideDraft &draft)
        : WriteOverride(a_request, summary_of(a_request.r->pool, draft)), draft_(draft) {}

  private:
    bool write_command(redis_client::ByteQueue &out) const override {
        return store().write_put(out, name_of(request_),
                                 {.what = draft_.what,
                                  .expires_in = draft_.expires_in,
                                  .by = author(),
                                  .note = draft_.note},
                                 redis_client::new_epoch(request_.limits.worker->world),
                                 request_.backend().memory.known());
    }
    void write_answer(JsonWriter &json) const override {
        Override what = draft_.what;
        what.expires_at = written().expires_at;
        const bool is_for_client = !request_.key.encoded.empty();
        write_override(
            json, pool(),
            {*request_.zone, is_for_client ? &request_.key : nullptr, request_.rule_name()},
            {what, written().time, author(), draft_.note}, written().time);
    }

    OverrideDraft draft_;
};

class RemoveOverride final : public WriteOverride {
  public:
    explicit RemoveOverride(ApiRequest &a_request)
        : WriteOverride(a_request, "delete the override") {}

  private:
    bool write_command(redis_client::ByteQueue &out) const override {
        return store().write_delete(out, name_of(request_), author(),
                                    redis_client::new_epoch(request_.limits.worker->world),
                                    request_.backend().memory.known());
    }
    void write_answer(JsonWriter &json) const override {
        json.begin_object();
        json.member("deleted", uint64_t{written().is_written});
        json.end_object();
    }
};

} // namespace

ngx_int_t put_override(ApiRequest &request) {
    const bool is_for_client = !request.key.encoded.empty();
    const auto parsed =
        rate_limit::parse_override(request.body, is_for_client ? rate_limit::OverrideOf::client
                                                               : rate_limit::OverrideOf::rule);
    if (const auto *error = std::get_if<rate_limit::OverrideError>(&parsed)) {
        return send_error(request.r, *refusal_of(request.r, error->member, error->expected));
    }
    const auto &draft = *std::get_if<OverrideDraft>(&parsed);
    if (const auto error = check_for_rules(request, draft)) {
        return send_error(request.r, *error);
    }
    if (!request.zone->memory.live_limits().has_room({request.key.encoded, request.rule_name()})) {
        return send_error(request.r,
                          {NGX_HTTP_INSUFFICIENT_STORAGE, "no_room",
                           "the zone's shared memory has no room for one more override"});
    }
    return begin_operation<PutOverride>(request, draft);
}

ngx_int_t remove_override(ApiRequest &request) {
    return begin_operation<RemoveOverride>(request);
}

} // namespace nginx_module
