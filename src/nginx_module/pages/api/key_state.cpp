// Tells what Redis and this host know of a client, and charges nothing.
#include "limiter/counter_identity.hpp"
#include "limiter/known_denials.hpp"
#include "nginx_module/pages/api/actions.hpp"
#include "nginx_module/pages/api/numbers.hpp"
#include "nginx_module/pages/api/operation.hpp"
#include "nginx_module/pages/api/override_json.hpp"
#include "nginx_module/util.hpp"
#include "rate_limit/rule/shards.hpp"
#include "rate_limit/text/key.hpp"
#include "rate_limit/text/text_writer.hpp"
#include "redis_client/control/live_store.hpp"
#include "redis_client/control/peek.hpp"
#include "redis_client/wire/hash_slot.hpp"

#include <algorithm>
#include <new>
#include <span>

namespace nginx_module {

namespace {

using rate_limit::Decision;
using rate_limit::Override;
using rate_limit::Quota;
using rate_limit::Verdict;
using std::chrono::microseconds;

/// Asks for the state of one counter, or of one shard of it.
struct PeekCounter final : ApiCommand {
    bool write(redis_client::ByteQueue &out) const override {
        return redis_client::write_peek(out, quota, is_aligned, redis_key, blocks, unix_now());
    }
    bool read(redis_client::ReplyView reply) override {
        const auto read = redis_client::read_peek(reply, quota, blocks);
        verdict = read.value_or(Verdict{});
        return read.has_value();
    }

    Quota quota; // of the shard
    bool is_aligned = false;
    std::string_view redis_key;
    redis_client::Blocks blocks = redis_client::Blocks::no;
    Verdict verdict;
};

/// A rule of the zone, the first of its name.
struct RuleState {
    const limiter::Rule *rule = nullptr;
    std::optional<ShownOverride> override;              // the one that holds
    const redis_client::LiveName *overridden = nullptr; // whom it is for
    std::optional<Quota> quota;                         // with the override's numbers
    std::span<PeekCounter> counters; // one for each shard; without a quota there are none

    std::optional<Override> numbers() const {
        return override ? std::optional(override->what) : std::nullopt;
    }
};

/// What the counters of a rule come to.
struct Sum {
    uint64_t remaining = 0;
    microseconds reset{0};
    std::optional<microseconds> retry_after; // nothing if it would pass, or never will
};

Sum sum_of(std::span<const PeekCounter> counters) {
    Sum sum;
    bool passes = false;
    for (const PeekCounter &counter : counters) {
        const Verdict &verdict = counter.verdict;
        sum.remaining += verdict.remaining;
        sum.reset = std::max(sum.reset, verdict.reset);
        passes = passes || verdict.decision == Decision::granted;
        if (verdict.decision == Decision::denied) {
            sum.retry_after =
                std::min(sum.retry_after.value_or(verdict.retry_after), verdict.retry_after);
        }
    }
    if (passes) {
        sum.retry_after.reset();
    }
    return sum;
}

class ShowKey final : public ApiOperation {
  public:
    explicit ShowKey(ApiRequest &a_request) : ApiOperation(a_request), look_up_(*this) {
        look_up_.hash_slot = store().hash_slot();
    }

  private:
    /// Asks for the overrides: that of the client, and for each rule those of the client at the
    /// rule and of the rule.
    struct LookUp final : ApiCommand {
        explicit LookUp(ShowKey &an_owner) : owner(an_owner) {}
        bool write(redis_client::ByteQueue &out) const override {
            return owner.store().write_lookup(out, owner.names_);
        }
        bool read(redis_client::ReplyView reply) override { return owner.read_overrides(reply); }
        ShowKey &owner;
    };

    enum class Stage { begin, looking_up, peeking };

    Step proceed() override {
        switch (stage_) {
        case Stage::begin:
            if (!make_rules()) {
                return Step::answered(NGX_HTTP_INTERNAL_SERVER_ERROR);
            }
            stage_ = Stage::looking_up;
            run(look_up_);
            return Step::waits();
        case Stage::looking_up:
            if (!look_up_.failure().empty()) {
                return Step::answered(
                    send_error(request_.r, look_up_.error(pool(), "overrides are not known")));
            }
            stage_ = Stage::peeking;
            break;
        case Stage::peeking:
            break;
        }
        return peek();
    }

    /// Returns false if memory ran out.
    bool make_rules() {
        const auto &named_rules = request_.zone->named_rules;
        const size_t count = named_rules.size();
        rules_ = {pool_array<RuleState>(pool(), count), count};
        names_ = {pool_array<redis_client::LiveName>(pool(), 1 + 2 * count), 1 + 2 * count};
        if (rules_.data() == nullptr || names_.data() == nullptr) {
            return false;
        }
        const std::string_view zone = request_.zone->name;
        const std::string_view key = request_.key.encoded;
        names_[0] = {.zone = zone, .encoded_key = key, .rule = {}};
        for (size_t i = 0; i < count; ++i) {
            rules_[i].rule = named_rules[i];
            names_[1 + 2 * i] = {.zone = zone, .encoded_key = key, .rule = named_rules[i]->name};
            names_[2 + 2 * i] = {.zone = zone, .encoded_key = {}, .rule = named_rules[i]->name};
        }
        return true;
    }

    bool read_overrides(redis_client::ReplyView reply) {
        const auto found = redis_client::read_lookup(reply);
        if (!found || found->overrides.size() != names_.size()) {
            return false;
        }
        redis_now_ = found->time;
        for (size_t i = 0; i < rules_.size(); ++i) {
            for (const size_t name : {1 + 2 * i, size_t{0}, 2 + 2 * i}) { // the first one holds
                if (found->overrides[name] && !rules_[i].override) {
                    rules_[i].override.emplace(*found->overrides[name]);
                    rules_[i].overridden = &names_[name];
                    is_short_of_memory_ = is_short_of_memory_ ||
                                          !copy_text(pool(), rules_[i].override->by) ||
                                          !copy_text(pool(), rules_[i].override->note);
                }
            }
        }
        return true;
    }

    /// Asks for the counters of some rules: so many that no worker is held up by any number of
    /// them.
    Step peek() {
        constexpr size_t enough = 64; // commands at once
        if (const auto error = failed_peek()) {
            return Step::answered(send_error(request_.r, *error));
        }
        size_t asked = 0;
        while (asked < enough && peeked_ < rules_.size()) {
            RuleState &state = rules_[peeked_++];
            state.quota = quota_of(*state.rule, state.numbers());
            if (is_short_of_memory_ || (state.quota && !make_counters(state, *state.quota))) {
                return Step::answered(NGX_HTTP_INTERNAL_SERVER_ERROR);
            }
            for (PeekCounter &counter : state.counters) {
                const auto decided = rate_limit::verdict_without_counter(counter.quota);
                if (decided) {
                    counter.verdict = *decided;
                } else {
                    run(counter);
                    ++asked;
                }
            }
        }
        return asked > 0 ? Step::waits() : answer();
    }

    std::optional<ApiError> failed_peek() const {
        for (const RuleState &state : rules_.first(peeked_)) {
            for (const PeekCounter &counter : state.counters) {
                if (!counter.failure().empty()) {
                    return counter.error(pool(),
                                         describe(pool(), "rule \"", state.rule->name, "\""));
                }
            }
        }
        return std::nullopt;
    }

    /// Returns false if memory ran out.
    bool make_counters(RuleState &state, const Quota &quota) {
        const limiter::Rule &rule = *state.rule;
        const uint64_t shards = rate_limit::shards_in_use(quota, rule.rule.shards);
        auto *counters =
            static_cast<PeekCounter *>(ngx_palloc(pool(), shards * sizeof(PeekCounter)));
        if (counters == nullptr) {
            return false;
        }
        for (uint64_t shard = 0; shard < shards; ++shard) {
            PeekCounter &counter = *new (counters + shard) PeekCounter;
            rate_limit::RedisKeyBuffer buffer;
            counter.quota = rate_limit::share_of(quota, shards, shard);
            counter.is_aligned = rule.rule.aligned;
            counter.blocks =
                block_of(rule).count() > 0 ? redis_client::Blocks::yes : redis_client::Blocks::no;
            counter.redis_key =
                rule.rule.shards > 1
                    ? rule.key_format->write_encoded(request_.key.encoded, shard, buffer)
                    : rule.key_format->write_encoded(request_.key.encoded, buffer);
            if (!copy_text(pool(), counter.redis_key)) {
                return false;
            }
            if (request_.backend().traits().has_hash_slots) {
                counter.hash_slot = redis_client::hash_slot(counter.redis_key);
            }
        }
        state.counters = {counters, shards};
        return true;
    }

    Step answer() {
        JsonWriter json(pool());
        json.begin_object();
        json.member("zone", std::string_view(request_.zone->name));
        write_client_key(json, pool(), *request_.zone, request_.key);
        json.name("rules");
        json.begin_object();
        for (const RuleState &state : rules_) {
            json.name(state.rule->name);
            write_rule(json, state);
        }
        json.end_object();
        json.end_object();
        return Step::answered(send_json(request_.r, json.finish()));
    }

    void write_rule(JsonWriter &json, const RuleState &state) const {
        const limiter::Rule &rule = *state.rule;
        const RuleNumbers numbers = numbers_of(rule, state.numbers());
        const bool is_dry_run = is_dry_run_everywhere(*request_.limits.conf, rule);
        json.begin_object();
        json.member("algorithm", to_string(rule.rule.quota.algorithm));
        write_calendar(json, rule);
        json.member("limit", numbers.limit);
        json.member("capacity", numbers.capacity);
        write_state(json, state);
        json.member("dry_run", is_dry_run);
        json.name("override");
        if (state.override) {
            const bool is_of_client = !state.overridden->encoded_key.empty();
            write_override(
                json, pool(),
                {*request_.zone, is_of_client ? &request_.key : nullptr, state.overridden->rule},
                *state.override, redis_now_);
        } else {
            json.value(Null{});
        }
        json.member("denied_here", !is_dry_run && is_denied_here(state));
        json.member("leased_here", units_leased_here(state));
        json.end_object();
    }

    void write_state(JsonWriter &json, const RuleState &state) const {
        const Sum sum = sum_of(state.counters);
        json.member("remaining", state.quota ? std::optional(sum.remaining) : std::nullopt);
        json.member("reset",
                    state.quota ? std::optional(rate_limit::Seconds{sum.reset}) : std::nullopt);
        const auto retry_after = retry_after_of(state, sum);
        json.member("retry_after",
                    retry_after ? std::optional(rate_limit::Seconds{*retry_after}) : std::nullopt);
    }

    /// An override may decide, whatever the counters say.
    std::optional<microseconds> retry_after_of(const RuleState &state, const Sum &sum) const {
        const auto what = state.numbers();
        if (!what || what->action == Override::Action::numbers) {
            return sum.retry_after;
        }
        const bool ends = what->action == Override::Action::ban && what->expires_at.count() > 0;
        return ends ? std::optional(std::max(what->expires_at - redis_now_, microseconds{0}))
                    : std::nullopt;
    }

    /// Whether this host denies without asking Redis, whichever shard it looks at.
    bool is_denied_here(const RuleState &state) const {
        const microseconds now = precise_now();
        return !state.counters.empty() &&
               std::ranges::all_of(state.counters, [&](const PeekCounter &counter) {
                   redis_client::Charge charge;
                   return limiter::known_denial(as_applied(state, counter, charge), now)
                       .has_value();
               });
    }

    /// Returns how many units this host has leased and not used. Rules with shards have no leases.
    uint64_t units_leased_here(const RuleState &state) const {
        if (!state.rule->may_lease() || state.counters.size() != 1) {
            return 0;
        }
        redis_client::Charge charge;
        const limiter::AppliedRule applied = as_applied(state, state.counters[0], charge);
        const auto account = state.rule->zone->memory.lease_book().find(
            limiter::identity_of(applied, static_cast<uint64_t>(applied.lease_time.count())));
        return account ? account->holding(boot_now()).units : 0;
    }

    std::chrono::milliseconds block_of(const limiter::Rule &rule) const {
        return rule.rule.block_of(is_dry_run_everywhere(*request_.limits.conf, rule));
    }

    /// Returns the rule as it would be applied to a request of this client.
    limiter::AppliedRule as_applied(const RuleState &state, const PeekCounter &counter,
                                    redis_client::Charge &charge) const {
        charge.quota = counter.quota;
        charge.redis_key = counter.redis_key;
        charge.block = block_of(*state.rule);
        limiter::AppliedRule applied;
        applied.rule = state.rule;
        applied.quota = *state.quota;
        applied.charge = &charge;
        applied.lease_time = rate_limit::lease_time(*state.quota, state.rule->rule.lease);
        return applied;
    }

    const redis_client::LiveStore &store() const { return request_.live_store(); }

    Stage stage_ = Stage::begin;
    LookUp look_up_;
    std::span<RuleState> rules_;
    std::span<redis_client::LiveName> names_; // of the client, then two for each rule
    size_t peeked_ = 0;                       // how many rules' counters have been asked for
    microseconds redis_now_{0};
    bool is_short_of_memory_ = false;
};

} // namespace

ngx_int_t show_key(ApiRequest &request) {
    return begin_operation<ShowKey>(request);
}

} // namespace nginx_module
