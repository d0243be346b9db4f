#include "live_sync.hpp"

#include "../log_text.hpp"
#include "../timer.hpp"
#include "../util.hpp"

#include <algorithm>
#include <memory>

namespace nginx_module {

using redis_client::ByteQueue;
using redis_client::ReplyView;
using std::chrono::milliseconds;

namespace {

/// How often a worker looks whether it has, or may take, the claim; and how often Redis is asked. A
/// change is known within the second of them, or within that and ProcessClaim::lasts_for if the
/// worker that asks is stopped.
constexpr milliseconds between_ticks{300};
constexpr milliseconds between_polls{900};

/// A Redis that has lost the registered rules knows them again soon.
constexpr milliseconds between_registrations{60'000};

/// After a refusal, as where the user may not do this.
constexpr milliseconds wait_after_refusal{10'000};

bool is_leaving() {
    return ngx_exiting != 0 || ngx_terminate != 0;
}

/// Whether the error says that Redis will never do this. Other errors, as of a Redis that loads its
/// data, pass; and checks tell of them.
bool is_refusal(std::string_view error) {
    return error.starts_with("NOPERM") || error.starts_with("WRONGTYPE") ||
           (error.starts_with("ERR ") && !error.starts_with("ERR max number of clients"));
}

std::vector<const rate_limit::Rule *> rules_of(const MainConf &conf, const BackendConf &backend) {
    std::vector<const rate_limit::Rule *> rules;
    for (const auto &rule : conf.rules) {
        const auto is_same = [&](const auto *other) { return other->same_counter(rule->rule); };
        if (rule->zone->backend == &backend && std::ranges::none_of(rules, is_same)) {
            rules.push_back(&rule->rule);
        }
    }
    return rules;
}

} // namespace

LiveSync::Question::Question(LiveSync &sync, Write write, Take take)
    : sync_(sync), write_(write), take_(take) {
    hash_slot = sync.backend_.live_store->hash_slot();
    holds_worker = false;
}

void LiveSync::Question::ask() {
    is_asked_ = true;
    control_link_of(sync_.backend_).run(*this);
}

void LiveSync::Question::cancel() {
    if (is_asked_) {
        is_asked_ = false;
        control_link_of(sync_.backend_).cancel(*this);
    }
}

bool LiveSync::Question::write(ByteQueue &out) const {
    sent_ = precise_now();
    return (sync_.*write_)(out);
}

void LiveSync::Question::on_reply(ReplyView reply) {
    is_asked_ = false;
    if (!reply.is_error()) {
        (sync_.*take_)(reply);
    } else if (const auto error = *reply.text(); is_refusal(error)) {
        sync_.on_refusal(*this, error);
    }
}

/// Checks tell of a Redis that cannot be reached. The next poll tries again.
void LiveSync::Question::on_failure(bool /*was_sent*/, std::string_view /*what*/,
                                    std::string_view /*detail*/) {
    is_asked_ = false;
}

LiveSync::LiveSync(const MainConf &conf, const BackendConf &backend, ngx_log_t *log)
    : backend_(backend),
      log_(log),
      rules_(rules_of(conf, backend)),
      zones_(conf, backend, log),
      follower_(zones_),
      time_(*this, &LiveSync::write_time, &LiveSync::take_time),
      registration_(*this, &LiveSync::write_registration, &LiveSync::take_registration),
      head_(*this, &LiveSync::write_head, &LiveSync::take_head),
      page_(*this, &LiveSync::write_page, &LiveSync::take_page) {
    set_up_timer(timer_, this, log, [](ngx_event_t *event) noexcept {
        static_cast<LiveSync *>(event->data)->on_tick();
    });
    start_timer(timer_, milliseconds{0});
}

LiveSync::~LiveSync() {
    stop_timer(timer_);
    lose_claim();
}

void LiveSync::on_tick() {
    if (is_leaving()) {
        lose_claim();
        return;
    }
    start_timer(timer_, between_ticks);
    if (has_claim_ ? !keep_claim() : !backend_.memory.take_sync_claim()) {
        return;
    }
    if (!has_claim_) {
        has_claim_ = true;
        has_clock_ = false;
        connection_ = 0;
        next_poll_ = next_registration_ = now();
    }
    if (now() >= next_poll_ && !is_asking()) {
        poll();
    }
}

/// Must be called before zones are written to. Another worker may have taken the claim while this
/// one was stopped.
bool LiveSync::keep_claim() {
    if (!is_leaving() && backend_.memory.keep_sync_claim()) {
        return true;
    }
    lose_claim();
    return false;
}

void LiveSync::lose_claim() {
    has_claim_ = false;
    for (Question *question : {&time_, &registration_, &head_, &page_}) {
        question->cancel();
    }
    backend_.memory.release_sync_claim();
}

bool LiveSync::is_asking() const {
    return time_.is_asked() || registration_.is_asked() || head_.is_asked() || page_.is_asked();
}

void LiveSync::poll() {
    next_poll_ = now() + between_polls;
    time_.ask();
    head_.ask();
}

// NOLINTNEXTLINE(readability-convert-member-functions-to-static): a Write is a member
bool LiveSync::write_time(ByteQueue &out) const {
    return redis_client::write_time_query(out);
}

void LiveSync::take_time(ReplyView reply) {
    // What a reply says that came late is not exact.
    constexpr std::chrono::microseconds late{100'000};
    const auto time = redis_client::read_time(reply);
    if (!time || (has_clock_ && precise_now() - time_.sent() > late)) {
        return;
    }
    has_clock_ = true;
    backend_.memory.set_redis_clock(*time, time_.sent());
    if (now() >= next_registration_ && !registration_.is_asked()) {
        next_registration_ = now() + between_registrations;
        registration_.ask();
    }
}

bool LiveSync::write_registration(ByteQueue &out) const {
    return backend_.live_store->write_registration(out, rules_, backend_.memory.redis_now());
}

void LiveSync::take_registration(ReplyView /*reply*/) {}

bool LiveSync::write_head(ByteQueue &out) const {
    return backend_.live_store->write_head_query(out);
}

void LiveSync::take_head(ReplyView reply) {
    if (!keep_claim()) {
        return;
    }
    if (head_.connection() != connection_ || zones_.need_all_anew()) {
        connection_ = head_.connection();
        next_registration_ = std::min(next_registration_, now());
        follower_.begin_anew(backend_.memory.known());
    }
    go_on(follower_.take_head(redis_client::read_head(reply)));
}

bool LiveSync::write_page(ByteQueue &out) const {
    return backend_.live_store->write_changes_query(out, since_);
}

void LiveSync::take_page(ReplyView reply) {
    const auto page = redis_client::read_changes(reply);
    if (!page || !keep_claim()) {
        return;
    }
    if (page_.connection() != connection_) {
        connection_ = 0; // the next head begins anew
        return;
    }
    go_on(follower_.take_page(*page));
}

/// Asks for the next page, if there is one.
void LiveSync::go_on(std::optional<uint64_t> since) {
    if (since) {
        since_ = *since;
        page_.ask();
        return;
    }
    backend_.memory.set_known(follower_.known());
    zones_.remove_expired();
}

void LiveSync::on_refusal(const Question &question, std::string_view error) {
    (&question == &registration_ ? next_registration_ : next_poll_) = now() + wait_after_refusal;
    if (is_refused_) {
        return;
    }
    is_refused_ = true;
    ngx_str_t name = to_ngx(backend_.name);
    LogText<160> said(error);
    ngx_log_error(NGX_LOG_WARN, log_, 0,
                  "redis_rate_limit: backend \"%V\" refuses what live limits need: %V, "
                  "what operators set does not reach this host",
                  &name, said.shown());
}

namespace {

/// One for each backend that rules use.
std::vector<std::unique_ptr<LiveSync>> &running() {
    static std::vector<std::unique_ptr<LiveSync>> all;
    return all;
}

} // namespace

void start_live_sync(const MainConf &conf) {
    for (const auto &backend : conf.backends) {
        if (backend->is_used()) {
            running().push_back(std::make_unique<LiveSync>(conf, *backend, ngx_cycle->log));
        }
    }
}

void stop_live_sync() {
    running().clear();
}

} // namespace nginx_module
