#include "nginx_module/backend/live_sync.hpp"

#include "nginx_module/log_text.hpp"
#include "nginx_module/timer.hpp"
#include "nginx_module/util.hpp"

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

/// A host that has not learned all for so long does not follow. It takes a few seconds to learn
/// many overrides.
constexpr milliseconds late_after{10'000};

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
    backend_of(sync_.backend_).run(*this);
}

void LiveSync::Question::cancel() {
    if (is_asked_) {
        is_asked_ = false;
        backend_of(sync_.backend_).cancel(*this);
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
        return;
    }
    const std::string_view error = *reply.text();
    sync_.last_failure_ = error;
    if (is_refusal(error)) {
        sync_.on_refusal(*this, error);
    }
}

/// Checks tell of a Redis that cannot be reached. The next poll tries again.
void LiveSync::Question::on_failure(bool /*was_sent*/, const redis_client::Fault &fault) {
    is_asked_ = false;
    sync_.last_failure_ = fault.what;
    if (const std::string reason = fault.reason(); !reason.empty()) {
        sync_.last_failure_.append(": ").append(reason);
    }
}

LiveSync::LiveSync(const MainConf &conf, const BackendConf &backend, ngx_log_t *log)
    : backend_(backend),
      log_(log),
      rules_(rules_of(conf, backend)),
      zones_(conf, backend, log),
      follower_(zones_),
      time_(*this, &LiveSync::write_time, &LiveSync::take_time),
      registration_(*this, &LiveSync::write_registration, &LiveSync::take_registration),
      purge_(*this, &LiveSync::write_purge, &LiveSync::take_purge),
      name_count_query_(*this, &LiveSync::write_name_count, &LiveSync::take_name_count),
      record_count_query_(*this, &LiveSync::write_record_count, &LiveSync::take_record_count),
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
    if (has_claim_ ? !keep_claim() : !backend_.memory.take_sync_claim(ngx_pid, precise_now())) {
        return;
    }
    if (!has_claim_) {
        has_claim_ = true;
        has_clock_ = is_registered_ = false;
        connection_ = 0;
        next_poll_ = next_registration_ = now();
        late_from_ = now() + late_after;
    }
    if (now() >= late_from_ && backend_.memory.live_trouble() == redis_client::LiveTrouble::none) {
        set_trouble(redis_client::LiveTrouble::late, last_failure_);
    }
    if (now() >= next_poll_ && !is_asking()) {
        poll();
    }
}

/// Must be called before zones are written to. Another worker may have taken the claim while this
/// one was stopped.
bool LiveSync::keep_claim() {
    if (!is_leaving() && backend_.memory.keep_sync_claim(ngx_pid, precise_now())) {
        return true;
    }
    lose_claim();
    return false;
}

void LiveSync::lose_claim() {
    has_claim_ = false;
    for (Question *question : {&time_, &registration_, &purge_, &name_count_query_,
                               &record_count_query_, &head_, &page_}) {
        question->cancel();
    }
    backend_.memory.release_sync_claim(ngx_pid);
}

bool LiveSync::is_asking() const {
    return time_.is_asked() || registration_.is_asked() || purge_.is_asked() ||
           name_count_query_.is_asked() || record_count_query_.is_asked() || head_.is_asked() ||
           page_.is_asked();
}

void LiveSync::poll() {
    next_poll_ = now() + between_polls;
    name_count_.reset();
    record_count_.reset();
    name_count_query_.ask();
    record_count_query_.ask();
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
    if (now() >= next_registration_ && !registration_.is_asked() && !purge_.is_asked()) {
        next_registration_ = now() + between_registrations;
        registration_.ask();
    }
}

bool LiveSync::write_registration(ByteQueue &out) const {
    return backend_.live_store->write_registration(out, rules_,
                                                   backend_.memory.redis_now(precise_now()));
}

void LiveSync::take_registration(ReplyView /*reply*/) {
    purge_.ask();
}

bool LiveSync::write_purge(ByteQueue &out) const {
    return backend_.live_store->write_counters_query(out, purged_to_);
}

void LiveSync::take_purge(ReplyView reply) {
    const auto page = redis_client::read_counters(reply);
    purged_to_ = page ? page->next : 0;
    is_registered_ = true;
}

bool LiveSync::write_name_count(ByteQueue &out) const {
    return backend_.live_store->write_name_count_query(out);
}

void LiveSync::take_name_count(ReplyView reply) {
    name_count_ = reply.number();
}

bool LiveSync::write_record_count(ByteQueue &out) const {
    return backend_.live_store->write_record_count_query(out);
}

void LiveSync::take_record_count(ReplyView reply) {
    record_count_ = reply.number();
}

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
    const auto head = redis_client::read_head(reply);
    const bool looks_complete =
        name_count_ && name_count_ == record_count_ && (*name_count_ > 0) == head.has_value();
    go_on(follower_.take_head(head, looks_complete));
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
    on_caught_up();
}

/// What this host knows is all that the store has.
void LiveSync::on_caught_up() {
    late_from_ = now() + late_after;
    if (!follower_.is_whole()) {
        set_trouble(redis_client::LiveTrouble::damaged, {});
    } else if (has_clock_ && is_registered_) {
        set_trouble(redis_client::LiveTrouble::none, {});
    }
}

void LiveSync::on_refusal(const Question &question, std::string_view error) {
    if (&question == &registration_ || &question == &purge_) {
        is_registered_ = false;
        next_registration_ = now() + wait_after_refusal;
    } else {
        has_clock_ = has_clock_ && &question != &time_;
        next_poll_ = now() + wait_after_refusal;
    }
    set_trouble(redis_client::LiveTrouble::refused, error);
}

/// The log says so once when this host ceases to follow, and once when it follows again.
void LiveSync::set_trouble(redis_client::LiveTrouble trouble, std::string_view why) {
    if (!backend_.memory.set_live_trouble(trouble)) {
        return;
    }
    ngx_str_t name = to_ngx(backend_.name);
    LogText<160> said(why);
    switch (trouble) {
    case redis_client::LiveTrouble::none:
        ngx_log_error(
            NGX_LOG_WARN, log_, 0,
            "redis_rate_limit: what operators set in backend \"%V\" reaches this host again",
            &name);
        break;
    case redis_client::LiveTrouble::refused:
        ngx_log_error(NGX_LOG_WARN, log_, 0,
                      "redis_rate_limit: backend \"%V\" refuses what live limits need: %V, "
                      "what operators set does not reach this host",
                      &name, said.shown());
        break;
    case redis_client::LiveTrouble::damaged:
        ngx_log_error(NGX_LOG_WARN, log_, 0,
                      "redis_rate_limit: backend \"%V\" has lost a part of what operators had set, "
                      "what this host knows of it holds on",
                      &name);
        break;
    case redis_client::LiveTrouble::late:
        ngx_log_error(NGX_LOG_WARN, log_, 0,
                      "redis_rate_limit: backend \"%V\" does not tell what operators set: %V, "
                      "what this host knows of it holds on",
                      &name, said.shown());
        break;
    }
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
