#include "limiter/held_leases.hpp"

#include "rate_limit/rule/counter_charges.hpp"
#include "rate_limit/text/text_writer.hpp"

#include <new>

namespace limiter {

using rate_limit::LeaseBook;
using rate_limit::RuleCounter;
using std::chrono::microseconds;

namespace {

/// How often a worker that holds leases looks whether it shuts down.
constexpr std::chrono::milliseconds look_every{100};

} // namespace

UnusedUnits unused(const AppliedRule &applied, const LeaseBook::Taken &taken) {
    return {
        .units = taken.units, .receipt = taken.receipt, .asked = taken.end() - applied.lease_time};
}

HeldLeases::HeldLeases(redis_client::World &world, redis_client::Backends &backends,
                       const WorkerLog &log)
    : world_(world),
      backends_(backends),
      log_(log),
      ticks_(world.make_timer([this] { on_tick(); })) {
    ticks_->hold_worker(true);
}

HeldLeases::~HeldLeases() {
    while (Held *lease = held_.front()) {
        let_go(*lease);
    }
}

/// Whether the client may have been reset since then.
bool HeldLeases::was_reset_since(const AppliedRule &applied, microseconds asked) const {
    // Resets count by a clock that stands still while the machine sleeps. If it did since the
    // reset, units that were leased after the reset may count as leased before it.
    const microseconds slept = world_.boot_now() - world_.precise_now();
    return applied.rule->zone->memory.live_limits().was_reset_since(applied.encoded_key(),
                                                                    asked - slept);
}

void HeldLeases::return_units(const AppliedRule &applied, const UnusedUnits &rest) {
    if (was_reset_since(applied, rest.asked)) {
        applied.counters().count(RuleCounter::lease_units_expired, rest.units);
        return;
    }
    log_.report(LeaseEvent::returned, rest.units);
    // The units count as returned when Redis says that it has them back, or else as expired.
    const redis_client::Charge charge = applied.charge_of_lease(
        rate_limit::quota_of_units(applied.charge->quota, rest.units), rest.receipt);
    backends_.settle(*applied.rule->zone->backend, {.kind = redis_client::SettlementKind::refund,
                                                    .charge = charge,
                                                    .aligned = applied.rule->rule.aligned,
                                                    .counters = &applied.counters(),
                                                    .is_of_lease = true});
}

void HeldLeases::return_ended(const AppliedRule &applied, const LeaseBook::Account &account,
                              microseconds now) {
    while (const auto rest = account.take_ended(now)) {
        return_units(applied, unused(applied, *rest));
    }
}

void HeldLeases::return_all() {
    is_over_ = true;
    while (Held *lease = held_.front()) {
        give_back(*lease, [](const LeaseBook::Account &account) { return account.take_all(); });
    }
}

/// The bytes of the Redis key stand behind the object.
void HeldLeases::hold(const AppliedRule &applied, microseconds end) {
    if (is_over_) {
        return;
    }
    const std::string_view redis_key = applied.charge->redis_key;
    void *memory = ::operator new(sizeof(Held) + redis_key.size(), std::nothrow);
    if (memory == nullptr) {
        return;
    }
    auto *lease = new (memory) Held{.owner = *this, .applied = applied, .end = end};
    auto *bytes = reinterpret_cast<char *>(lease + 1);
    rate_limit::append(bytes, redis_key);
    lease->charge.redis_key = {bytes, redis_key.size()};
    lease->charge.quota = applied.charge->quota;
    lease->charge.hash_slot = applied.charge->hash_slot;
    lease->applied.charge = &lease->charge;
    lease->applied.key = {}; // it is the request's
    lease->timer = world_.make_timer([lease] { lease->owner.on_end(*lease); });
    held_.push_back(*lease);
    update_ticks();
    backends_.of(*applied.rule->zone->backend).hold_lease();
    if (lease->timer == nullptr) {
        let_go(*lease);
        return;
    }
    wait(*lease);
}

void HeldLeases::wait(Held &lease) {
    lease.timer->start(std::chrono::ceil<std::chrono::milliseconds>(lease.end - world_.boot_now()));
}

void HeldLeases::on_end(Held &lease) {
    const microseconds now = world_.boot_now();
    if (now < lease.end) {
        wait(lease);
        return;
    }
    give_back(lease, [now](const LeaseBook::Account &account) { return account.take_ended(now); });
}

template <typename TakeRest>
void HeldLeases::give_back(Held &lease, const TakeRest &take_rest) {
    const AppliedRule &applied = lease.applied;
    if (const auto account = applied.rule->zone->memory.lease_book().find(applied.lease.account)) {
        while (const auto rest = take_rest(*account)) {
            return_units(applied, unused(applied, *rest));
        }
    }
    let_go(lease);
}

void HeldLeases::let_go(Held &lease) {
    held_.remove(lease);
    update_ticks();
    backends_.of(*lease.applied.rule->zone->backend).let_lease_go();
    lease.~Held();
    ::operator delete(&lease);
}

/// Must be called when a lease was added, or let go.
void HeldLeases::update_ticks() {
    if (held_.empty()) {
        ticks_->stop();
    } else if (!ticks_->is_running()) {
        ticks_->start(look_every);
    }
}

void HeldLeases::on_tick() {
    ticks_->hold_worker(!world_.is_leaving() || are_shared());
    update_ticks();
}

/// Whether the workers of a newer configuration may take units of a lease.
bool HeldLeases::are_shared() const {
    for (const Held *lease = held_.front(); lease != nullptr; lease = lease->hook.next) {
        if (!lease->applied.rule->zone->memory.is_latest()) {
            return true;
        }
    }
    return false;
}

} // namespace limiter
