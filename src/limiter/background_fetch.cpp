#include "limiter/background_fetch.hpp"

#include "limiter/fallback.hpp"
#include "redis_client/script/arguments.hpp"

#include <memory>
#include <new>

namespace limiter {

void BackgroundFetch::start(Worker &worker, const AppliedRule &applied,
                            const rate_limit::LeaseClaim &claim, uint64_t wanted) {
    std::unique_ptr<BackgroundFetch> fetch(new (std::nothrow)
                                               BackgroundFetch(worker, applied, claim));
    if (fetch != nullptr && fetch->prepare(wanted)) {
        fetch.release()->ask();
    }
}

BackgroundFetch::BackgroundFetch(Worker &worker, const AppliedRule &applied,
                                 const rate_limit::LeaseClaim &claim)
    : worker_(worker),
      backend_(worker.backends.of(*applied.rule->zone->backend)),
      asked_(worker.world.precise_now()) {
    const redis_client::Charge &charge = *applied.charge;
    charge_.quota = charge.quota;
    charge_.quota.cost = 0;
    charge_.redis_key = charge.redis_key;
    charge_.hash_slot = charge.hash_slot;
    charge_.may_lease = true;
    static_cast<ApplicableRule &>(applied_) = applied;
    applied_.quota = charge_.quota;
    applied_.charge = &charge_;
    applied_.lease = {.account = applied.lease.account, .claim = claim, .taken = {}};
}

bool BackgroundFetch::prepare(uint64_t wanted) {
    const Rule &rule = *applied_.rule;
    charge_.wanted = wanted;
    charge_.lease_counters = &applied_.counters();
    if (!applied_.has_own_numbers) {
        charge_.arguments = &*rule.fetch_arguments;
    } else if (auto *own = arena_.array<redis_client::WireWords>(1)) {
        *own =
            redis_client::leasing_arguments(charge_.quota, rule.rule.aligned, applied_.lease_time);
        charge_.arguments = own;
    }
    const auto redis_key = arena_.copy(charge_.redis_key);
    const auto key = arena_.copy(applied_.key);
    if (charge_.arguments == nullptr || !redis_key || !key) {
        return false;
    }
    charge_.redis_key = *redis_key;
    applied_.key = *key;
    return true;
}

void BackgroundFetch::ask() {
    worker_.log.report(LeaseEvent::asked, charge_.wanted);
    const auto asked = backend_.ask({&charge_, 1}, *this);
    if (const auto *failure = std::get_if<redis_client::Failure>(&asked)) {
        backend_.counters().check_refused(*failure);
        end(Answered::no);
    } else {
        backend_.counters().check_asked();
    }
}

void BackgroundFetch::on_answer(std::optional<redis_client::Failure> failure) {
    backend_.counters().check_answered(failure, asked_, worker_.world.precise_now());
    end(failure ? Answered::no : Answered::yes);
}

void BackgroundFetch::end(Answered answered) {
    keep_leases(worker_, {&applied_, 1}, answered);
    if (answered == Answered::yes) {
        applied_.take_answer();
        remember_verdicts({&applied_, 1}, asked_);
    }
    delete this;
}

std::string_view BackgroundFetch::describe(std::span<char> out) const {
    return worker_.log.describe({&applied_, 1}, out);
}

} // namespace limiter
