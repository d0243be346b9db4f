#include "limiter/live/live_sync.hpp"

#include <algorithm>

namespace limiter {

using redis_client::ByteQueue;
using redis_client::LiveTrouble;
using redis_client::Registry;
using redis_client::ReplyView;
using std::chrono::microseconds;
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

/// What Redis's clock says is wrong by up to the round trip of the question. An answer that came
/// late counts only if no better one has come for a while, as from a Redis that is far away: then
/// the clock is wrong by that, which is less than ControlCommand::timeout.
constexpr microseconds late{100'000};
constexpr milliseconds wait_for_better_time{10'000};

/// Another host may write back what Redis has lost: it may need so many polls, as it connects
/// later.
constexpr int polls_of_others{3};

/// After a refusal, as where the user may not do this.
constexpr milliseconds wait_after_refusal{10'000};

/// Whether the error says that Redis will never do this. Other errors, as of a Redis that loads its
/// data, pass; and checks tell of them.
bool is_refusal(std::string_view error) {
    return error.starts_with("NOPERM") || error.starts_with("WRONGTYPE") ||
           (error.starts_with("ERR ") && !error.starts_with("ERR max number of clients"));
}

/// Returns one rule for each counter of the registry.
std::vector<const rate_limit::Rule *> counters_of(std::span<const Rule *const> all,
                                                  Registry registry) {
    std::vector<const rate_limit::Rule *> rules;
    for (const Rule *rule : all) {
        if ((rule->rule.calendar != nullptr) != (registry == Registry::of_calendars)) {
            continue;
        }
        const auto is_same = [&](const auto *other) { return other->same_counter(rule->rule); };
        if (std::ranges::none_of(rules, is_same)) {
            rules.push_back(&rule->rule);
        }
    }
    return rules;
}

} // namespace

LiveSync::Question::Question(LiveSync &sync, Write write, Take take)
    : sync_(sync), write_(write), take_(take) {
    hash_slot = sync.settings_.live_store->hash_slot();
    holds_worker = false;
}

void LiveSync::Question::ask() {
    is_asked_ = true;
    sync_.backend_.run(*this);
}

void LiveSync::Question::cancel() {
    if (is_asked_) {
        is_asked_ = false;
        sync_.backend_.cancel(*this);
    }
}

bool LiveSync::Question::write(ByteQueue &out) const {
    sent_ = sync_.world_.precise_now();
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

LiveSync::LiveSync(const redis_client::BackendSettings &settings, redis_client::Backend &backend,
                   std::span<const Zone *const> zones, std::span<const Rule *const> rules,
                   redis_client::World &world, LiveLog &log)
    : settings_(settings),
      backend_(backend),
      world_(world),
      log_(log),
      rules_{counters_of(rules, Registry::of_lengths), counters_of(rules, Registry::of_calendars)},
      zones_(settings, zones, world, log),
      follower_(zones_),
      time_(*this, &LiveSync::write_time, &LiveSync::take_time),
      registration_(*this, &LiveSync::write_registration, &LiveSync::take_registration),
      purge_(*this, &LiveSync::write_purge, &LiveSync::take_purge),
      name_count_query_(*this, &LiveSync::write_name_count, &LiveSync::take_name_count),
      record_count_query_(*this, &LiveSync::write_record_count, &LiveSync::take_record_count),
      head_(*this, &LiveSync::write_head, &LiveSync::take_head),
      page_(*this, &LiveSync::write_page, &LiveSync::take_page),
      writing_back_(*this, &LiveSync::write_back, &LiveSync::take_written_back),
      timer_(world.make_timer([this] { on_tick(); })) {
    timer_->start(milliseconds{0});
}

LiveSync::~LiveSync() {
    lose_claim();
}

void LiveSync::on_tick() {
    if (world_.is_leaving()) {
        lose_claim();
        return;
    }
    timer_->start(between_ticks);
    if (has_claim_ ? !keep_claim() : !settings_.memory.take_sync_claim(world_)) {
        return;
    }
    if (!has_claim_) {
        has_claim_ = true;
        has_clock_ = is_registered_ = false;
        connection_ = 0;
        next_poll_ = next_registration_ = take_late_time_from_ = world_.now();
        late_from_ = world_.now() + late_after;
    }
    if (world_.now() >= late_from_ && settings_.memory.live_trouble() == LiveTrouble::none) {
        set_trouble(LiveTrouble::late, last_failure_);
    }
    if (world_.now() >= next_poll_ && !is_asking()) {
        poll();
    }
}

/// Must be called before zones are written to. Another worker may have taken the claim while this
/// one was stopped.
bool LiveSync::keep_claim() {
    if (!world_.is_leaving() && settings_.memory.keep_sync_claim(world_)) {
        return true;
    }
    lose_claim();
    return false;
}

void LiveSync::lose_claim() {
    has_claim_ = false;
    for (Question *question : {&time_, &registration_, &purge_, &name_count_query_,
                               &record_count_query_, &head_, &page_, &writing_back_}) {
        question->cancel();
    }
    follower_.forget();
    settings_.memory.release_sync_claim(world_);
}

bool LiveSync::is_asking() const {
    return time_.is_asked() || registration_.is_asked() || purge_.is_asked() ||
           name_count_query_.is_asked() || record_count_query_.is_asked() || head_.is_asked() ||
           page_.is_asked() || writing_back_.is_asked();
}

void LiveSync::poll() {
    next_poll_ = world_.now() + between_polls;
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
    const auto time = redis_client::read_time(reply);
    if (!time) {
        return;
    }
    has_clock_ = true;
    const microseconds round_trip = world_.precise_now() - time_.sent();
    if (round_trip <= late || world_.now() >= take_late_time_from_) {
        settings_.memory.set_redis_clock(*time, time_.sent());
        take_late_time_from_ = world_.now() + wait_for_better_time;
    }
    if (world_.now() >= next_registration_ && !registration_.is_asked() && !purge_.is_asked()) {
        registering_ =
            rules_of(Registry::of_lengths).empty() ? Registry::of_calendars : Registry::of_lengths;
        registration_.ask();
    }
}

bool LiveSync::write_registration(ByteQueue &out) const {
    return settings_.live_store->write_registration(
        out, registering_, rules_of(registering_),
        settings_.memory.redis_now(world_.precise_now()));
}

void LiveSync::take_registration(ReplyView /*reply*/) {
    if (registering_ == Registry::of_lengths && !rules_of(Registry::of_calendars).empty()) {
        registering_ = Registry::of_calendars;
        registration_.ask();
        return;
    }
    purge_.ask();
}

bool LiveSync::write_purge(ByteQueue &out) const {
    return settings_.live_store->write_counters_query(out, purged_, purged_to_);
}

/// Behind the last page of one registry comes the first of the other one.
void LiveSync::take_purge(ReplyView reply) {
    const auto page = redis_client::read_counters(reply);
    purged_to_ = page ? page->next : 0;
    if (purged_to_ == 0) {
        purged_ = purged_ == Registry::of_lengths ? Registry::of_calendars : Registry::of_lengths;
    }
    is_registered_ = true;
    next_registration_ = world_.now() + between_registrations;
}

bool LiveSync::write_name_count(ByteQueue &out) const {
    return settings_.live_store->write_name_count_query(out);
}

void LiveSync::take_name_count(ReplyView reply) {
    name_count_ = reply.number();
}

bool LiveSync::write_record_count(ByteQueue &out) const {
    return settings_.live_store->write_record_count_query(out);
}

void LiveSync::take_record_count(ReplyView reply) {
    record_count_ = reply.number();
}

bool LiveSync::write_head(ByteQueue &out) const {
    return settings_.live_store->write_head_query(out);
}

void LiveSync::take_head(ReplyView reply) {
    if (!keep_claim()) {
        return;
    }
    if (head_.connection() != connection_ || zones_.need_all_anew()) {
        connection_ = head_.connection();
        next_registration_ = std::min(next_registration_, world_.now());
        follower_.begin_anew(settings_.memory.known());
    }
    const auto head = redis_client::read_head(reply);
    const bool looks_complete =
        name_count_ && name_count_ == record_count_ && (*name_count_ > 0) == head.has_value();
    go_on(follower_.take_head(head, looks_complete));
}

bool LiveSync::write_page(ByteQueue &out) const {
    return settings_.live_store->write_changes_query(out, since_);
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

bool LiveSync::write_back(ByteQueue &out) const {
    return settings_.live_store->write_back(out, follower_.epoch(), follower_.lost());
}

void LiveSync::take_written_back(ReplyView reply) {
    if (keep_claim()) {
        go_on(follower_.take_written_back(redis_client::read_written_back(reply)));
    }
}

void LiveSync::go_on(redis_client::LiveStep step) {
    switch (step.what) {
    case redis_client::LiveStep::What::read:
        since_ = step.since;
        page_.ask();
        return;
    case redis_client::LiveStep::What::write_back:
        writing_back_.ask();
        return;
    case redis_client::LiveStep::What::wait:
        break;
    }
    settings_.memory.set_known(follower_.known());
    zones_.remove_expired();
    follower_.drop_ended(settings_.memory.redis_now(world_.precise_now()));
    on_caught_up();
}

/// What this host knows is all that the store has.
void LiveSync::on_caught_up() {
    late_from_ = world_.now() + late_after;
    polls_of_older_ = follower_.has_lost_newest() ? polls_of_older_ + 1 : 0;
    if (!follower_.is_whole()) {
        set_trouble(LiveTrouble::damaged, {});
    } else if (follower_.has_lost_newest()) {
        if (polls_of_older_ > polls_of_others) {
            set_trouble(LiveTrouble::older, {});
        }
    } else if (has_clock_ && is_registered_) {
        set_trouble(LiveTrouble::none, {});
    }
}

void LiveSync::on_refusal(const Question &question, std::string_view error) {
    if (&question == &registration_ || &question == &purge_) {
        is_registered_ = false;
        next_registration_ = world_.now() + wait_after_refusal;
    } else {
        has_clock_ = has_clock_ && &question != &time_;
        next_poll_ = world_.now() + wait_after_refusal;
    }
    set_trouble(LiveTrouble::refused, error);
}

/// The log says so once when this host ceases to follow, and once when it follows again.
void LiveSync::set_trouble(LiveTrouble trouble, std::string_view why) {
    if (!settings_.memory.set_live_trouble(trouble)) {
        return;
    }
    log_.on_trouble(settings_.name, trouble, why);
}

} // namespace limiter
