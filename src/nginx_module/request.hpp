// What is known of a client request: the rules that were applied to it, and the check that it
// waits for.
#pragma once

#include "ngx.hpp"

#include "conf.hpp"

#include <optional>

namespace nginx_module {

/// A rule that was applied to a request. An identity is applied once: SPEC section 4.
struct Applied {
    const RuleConf *rule;
    std::optional<rate_limit::Verdict> verdict; // nothing: `on_error` decided
    Applied *next;
};

/// Lives in the request's pool, and is found again after an internal redirect, for which nginx
/// forgets the contexts of modules.
class RequestState final : public redis_client::CheckListener {
  public:
    /// Null where no rule was applied yet.
    static RequestState *find(ngx_http_request_t *r);
    /// Null without memory.
    static RequestState *find_or_create(ngx_http_request_t *r);

    explicit RequestState(ngx_http_request_t *r);

    /// Asks Redis. Nothing: the request is to be suspended, and its phases run again when the
    /// answer is there. `key` is of the request's pool.
    std::optional<redis_client::Failure> ask(const RuleConf &rule, std::string_view key);

    struct Question {
        const RuleConf *rule = nullptr;
        std::string_view key;
    };
    const Question &question() const { return question_; } // the last one
    /// The answer to it, once, when the request's phases run again for it.
    std::optional<redis_client::CheckResult> take_answer();

    /// What was asked no longer matters: the request ends, or nginx has led it elsewhere while it
    /// was suspended, as to a post_action.
    void forget();

    /// False without memory.
    bool add(const RuleConf &rule, const std::optional<rate_limit::Verdict> &verdict);
    bool has_applied(const RuleConf &rule) const;
    const Applied *applied() const { return applied_; }

    void reject() { rejected_ = true; }
    bool is_rejected() const { return rejected_; }

  private:
    void on_result(const redis_client::CheckResult &result) override;
    bool suspend();
    void resume();

    ngx_http_request_t *r_;
    Backend *backend_ = nullptr;
    redis_client::Check *check_ = nullptr; // on its way
    Question question_;
    std::optional<redis_client::CheckResult> answer_;
    ngx_event_t resume_{};
    bool cleans_up_ = false;
    bool rejected_ = false;
    Applied *applied_ = nullptr; // the last one first
};

} // namespace nginx_module
