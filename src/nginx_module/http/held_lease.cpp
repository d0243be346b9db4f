#include "nginx_module/http/held_lease.hpp"

#include "nginx_module/backend/backend.hpp"
#include "nginx_module/timer.hpp"
#include "nginx_module/util.hpp"
#include "rate_limit/rule/counter_charges.hpp"

#include <functional>
#include <new>

namespace nginx_module {

using rate_limit::LeaseBook;
using rate_limit::LeaseCount;
using std::chrono::microseconds;

namespace {

/// How often a worker that holds leases looks whether it shuts down.
constexpr std::chrono::milliseconds look_every{100};

/// Whether the client may have been reset since then.
bool was_reset_since(const AppliedRule &applied, microseconds asked) {
    // Resets count by a clock that stands still while the machine sleeps. If it did since the
    // reset, units that were leased after the reset may count as leased before it.
    const microseconds slept = boot_now() - precise_now();
    return applied.rule->zone->memory.live_limits().was_reset_since(applied.encoded_key(),
                                                                    asked - slept);
}

/// The units count as returned when Redis says that it has them back, or else as expired.
void tell_redis(const AppliedRule &applied, const UnusedUnits &rest) {
    const redis_client::Charge charge = applied.charge_of(
        rate_limit::quota_of_units(applied.charge->quota, rest.units), rest.receipt);
    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "redis_rate_limit gives back %uL leased units", rest.units);
    backend_of(*applied.rule->zone->backend)
        .settle({.kind = redis_client::SettlementKind::refund,
                 .charge = charge,
                 .aligned = applied.rule->rule.aligned,
                 .counters = applied.rule->first_of_name->counters,
                 .is_of_lease = true});
}

} // namespace

UnusedUnits unused(const AppliedRule &applied, const LeaseBook::Taken &taken) {
    return {
        .units = taken.units, .receipt = taken.receipt, .asked = taken.end() - applied.lease.time};
}

void return_units(const AppliedRule &applied, const UnusedUnits &rest) {
    if (was_reset_since(applied, rest.asked)) {
        applied.rule->first_of_name->counters->count(LeaseCount::expired, rest.units);
    } else {
        tell_redis(applied, rest);
    }
}

void return_ended(const AppliedRule &applied, const LeaseBook::Account &account, microseconds now) {
    while (const auto rest = account.take_ended(now)) {
        return_units(applied, unused(applied, *rest));
    }
}

/// Its timer looks whether the worker shuts down, and may keep it alive then.
struct HeldLease::List : redis_client::IntrusiveList<HeldLease, &HeldLease::hook_> {
    List() {
        set_up_timer(timer, this, ngx_cycle->log, [](ngx_event_t *event) noexcept {
            static_cast<List *>(event->data)->on_timer();
        });
        timer.cancelable = 0;
    }

    /// Must be called when a lease was added, or let go.
    void update_timer() {
        if (empty()) {
            stop_timer(timer);
        } else if (!timer.timer_set) {
            start_timer(timer, look_every);
        }
    }

    void on_timer() {
        timer.cancelable = ngx_exiting != 0 && !are_shared() ? 1 : 0;
        update_timer();
    }

    /// Whether the workers of a newer configuration may take units of a lease.
    bool are_shared() const {
        for (const HeldLease *lease = front(); lease != nullptr; lease = lease->hook_.next) {
            if (!lease->applied_.rule->zone->memory.is_latest()) {
                return true;
            }
        }
        return false;
    }

    ngx_event_t timer{};
};

HeldLease::List &HeldLease::all() {
    static List held;
    return held;
}

void HeldLease::hold(const AppliedRule &applied, microseconds end) {
    constexpr size_t room = 1024;
    static_assert(sizeof(HeldLease) < room / 2 + room / 4);
    ngx_pool_t *pool = ngx_create_pool(room, ngx_cycle->log);
    void *memory = pool != nullptr ? ngx_palloc(pool, sizeof(HeldLease)) : nullptr;
    std::string_view redis_key = applied.charge->redis_key;
    if (memory == nullptr || !copy_text(pool, redis_key)) {
        if (pool != nullptr) {
            ngx_destroy_pool(pool);
        }
        return;
    }
    auto *lease = new (memory) HeldLease(pool, applied, end);
    lease->charge_.redis_key = redis_key;
    all().push_back(*lease);
    all().update_timer();
    backend_of(*applied.rule->zone->backend).hold_lease();
    lease->wait();
}

HeldLease::HeldLease(ngx_pool_t *pool, const AppliedRule &applied, microseconds end)
    : pool_(pool), applied_(applied), end_(end) {
    charge_.quota = applied.charge->quota;
    charge_.hash_slot = applied.charge->hash_slot;
    applied_.charge = &charge_;
    applied_.key = {}; // it is the request's
    set_up_timer(timer_, this, ngx_cycle->log, [](ngx_event_t *event) noexcept {
        static_cast<HeldLease *>(event->data)->on_timer();
    });
}

void HeldLease::wait() {
    start_timer(timer_, std::chrono::ceil<std::chrono::milliseconds>(end_ - boot_now()));
}

void HeldLease::on_timer() {
    const microseconds now = boot_now();
    if (now < end_) {
        wait();
        return;
    }
    give_back(&LeaseBook::Account::take_ended, now);
}

template <typename TakeRest, typename... Arguments>
void HeldLease::give_back(TakeRest take_rest, Arguments... arguments) {
    const auto account = applied_.rule->zone->memory.lease_book().find(applied_.lease.account);
    while (account) {
        const auto rest = std::invoke(take_rest, *account, arguments...);
        if (!rest) {
            break;
        }
        return_units(applied_, unused(applied_, *rest));
    }
    let_go();
}

void HeldLease::let_go() {
    stop_timer(timer_);
    all().remove(*this);
    all().update_timer();
    backend_of(*applied_.rule->zone->backend).let_lease_go();
    ngx_destroy_pool(pool_); // this object is in the pool, too
}

void return_held_leases() {
    while (HeldLease *lease = HeldLease::all().front()) {
        lease->give_back(&LeaseBook::Account::take_all);
    }
}

} // namespace nginx_module
