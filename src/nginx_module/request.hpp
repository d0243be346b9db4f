// What is known of a client request: the rules that were applied to it, and what it waits for.
#pragma once

#include "ngx.hpp"

#include "question.hpp"

#include <chrono>
#include <span>

namespace nginx_module {

/// Lives in the request's pool, and is found again after an internal redirect, for which nginx
/// forgets the contexts of modules.
class RequestState {
  public:
    /// Null where no rule was applied yet.
    static RequestState *find(ngx_http_request_t *r);
    /// Null without memory.
    static RequestState *find_or_create(ngx_http_request_t *r);

    explicit RequestState(ngx_http_request_t *r);

    enum class Stage {
        idle,
        asking,   // suspended, until all questions are answered
        answered, // the phases run again
        delaying, // suspended
        delayed,  // the phases run again
    };
    Stage stage() const { return stage_; }

    /// Asks all questions of a chain, and suspends the request where answers have to be waited for;
    /// `now` is precise_now(). NGX_OK: all are answered; NGX_AGAIN: suspended; NGX_ERROR.
    ngx_int_t ask(Question *questions, std::span<Applied> rules, std::chrono::microseconds now);
    /// The same, in the place of those questions whose rules reject the request; what is not
    /// answered in time is no longer waited for.
    ngx_int_t ask_again(Question *questions, std::chrono::microseconds now,
                        std::chrono::milliseconds time);
    Question *questions() { return questions_; }
    std::span<Applied> asked() const { return asked_; } // the rules of all questions
    /// The answers, or the end of a delay, have been taken note of.
    void settle();

    /// Suspends the request for a time. NGX_AGAIN or NGX_ERROR.
    ngx_int_t delay(std::chrono::microseconds time);

    /// The client has sent more, or ended its sending side, while a verdict is waited for. Whoever
    /// handles the request's events after that is to be told, as the event method tells it once.
    void keep_read_event() { has_read_event_ = true; }

    /// What was asked no longer matters: the request ends, or nginx has led it elsewhere while it
    /// was suspended, as to a post_action.
    void forget();
    /// The request's memory goes.
    void end();

    void add(Applied &applied);
    /// Whether the rule itself was applied, and enforced if it is enforced now.
    bool has_applied(const RuleConf &rule, bool is_dry_run) const;
    /// Whether a rule was applied that covers the candidate: see "Which requests are counted" in
    /// docs/responses.md.
    bool has_covered(const Candidate &candidate) const;
    /// What the rules that were applied have charged to a Redis key of the zone, in the unit of
    /// Quota::charged.
    uint64_t charged_to(const ZoneConf &zone, std::string_view redis_key) const;
    /// The rule that charged the same counter of the same client last; null where none did.
    const Applied *last_charge(const RuleConf &rule, std::string_view key) const;
    /// Whether it was added as one that is left out.
    bool has_left_out(const RuleConf &rule) const;
    const Applied *applied() const { return applied_; }

    /// The rule that a client should look at first; those on trial only where there are no others.
    /// Null where no rule has a verdict.
    const Applied *tightest() const;

    void reject() { is_rejected_ = true; }
    bool is_rejected() const { return is_rejected_; }
    bool was_delayed() const { return was_delayed_; }
    /// When asking began of which ask_again() is a part, precise_now().
    std::chrono::microseconds first_asked() const { return first_asked_; }
    /// Of what was asked last, precise_now().
    const rate_limit::DenyTable::CheckTimes &times() const { return times_; }
    std::chrono::microseconds time_asking() const { return time_asking_; }

  private:
    friend class Question;

    void supersede(const Applied &by);
    template <typename Predicate>
    bool any_applied(Predicate is_such) const;
    ngx_int_t wait_for(Question *questions, std::chrono::microseconds now);
    void on_answer(std::chrono::microseconds now);
    void end_asking(std::chrono::microseconds now);
    void give_up_questions();
    bool suspend(ngx_http_event_handler_pt watch);
    bool look_at_client(ngx_http_event_handler_pt watch);
    void resume();

    ngx_http_request_t *r_;
    Stage stage_ = Stage::idle;
    Question *questions_ = nullptr; // not settled yet
    std::span<Applied> asked_;
    Question *settled_questions_ = nullptr; // of earlier phases and locations
    size_t unanswered_ = 0;
    ngx_event_t resume_{}; // posted, or on a timer
    bool cleans_up_ = false;
    bool has_read_event_ = false;
    bool is_rejected_ = false;
    bool was_delayed_ = false;
    std::chrono::microseconds first_asked_{0};
    rate_limit::DenyTable::CheckTimes times_{};
    std::chrono::microseconds time_asking_{0};
    Applied *applied_ = nullptr; // in the order in which they were
    Applied **next_applied_ = &applied_;
    Applied *left_out_ = nullptr;
};

} // namespace nginx_module
