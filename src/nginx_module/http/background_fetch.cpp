#include "nginx_module/http/background_fetch.hpp"

#include "nginx_module/backend/backend.hpp"
#include "nginx_module/http/fallback.hpp"
#include "nginx_module/http/log_lines.hpp"
#include "nginx_module/util.hpp"
#include "redis_client/script/arguments.hpp"

#include <new>

namespace nginx_module {

void BackgroundFetch::start(const AppliedRule &applied, const rate_limit::LeaseClaim &claim,
                            uint64_t wanted) {
    constexpr size_t room = 1024;
    static_assert(sizeof(BackgroundFetch) < room / 2 + room / 4);
    ngx_pool_t *pool = ngx_create_pool(room, ngx_cycle->log);
    void *memory = pool != nullptr ? ngx_palloc(pool, sizeof(BackgroundFetch)) : nullptr;
    if (memory == nullptr) {
        if (pool != nullptr) {
            ngx_destroy_pool(pool);
        }
        return; // the claim ends by itself
    }
    auto *fetch =
        new (memory) BackgroundFetch(pool, applied, backend_of(*applied.rule->zone->backend));
    fetch->applied_.lease.claim = claim;
    if (fetch->prepare(wanted)) {
        fetch->ask();
    } else {
        ngx_destroy_pool(pool);
    }
}

BackgroundFetch::BackgroundFetch(ngx_pool_t *pool, const AppliedRule &applied,
                                 redis_client::Backend &backend)
    : pool_(pool), applied_(applied), backend_(backend), asked_(precise_now()) {
    const redis_client::Charge &charge = *applied.charge;
    charge_.quota = charge.quota;
    charge_.quota.cost = 0;
    charge_.redis_key = charge.redis_key;
    charge_.hash_slot = charge.hash_slot;
    charge_.may_lease = true;
    applied_.charge = &charge_;
    applied_.quota = charge_.quota;
    applied_.source = AppliedRule::Source::redis;
    applied_.result = AppliedRule::Result::no_verdict;
    applied_.lease.taken.reset();
    applied_.next = nullptr;
}

bool BackgroundFetch::prepare(uint64_t wanted) {
    const RuleConf &rule = *applied_.rule;
    charge_.wanted = wanted;
    if (!applied_.has_own_numbers) {
        charge_.arguments = &*rule.fetch_arguments;
    } else if (auto *own = pool_array<redis_client::WireWords>(pool_, 1)) {
        *own =
            redis_client::leasing_arguments(charge_.quota, rule.rule.aligned, applied_.lease.time);
        charge_.arguments = own;
    }
    return charge_.arguments != nullptr && copy_text(pool_, charge_.redis_key) &&
           copy_text(pool_, applied_.key);
}

void BackgroundFetch::ask() {
    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "redis_rate_limit asks for a lease of %uL units", charge_.wanted);
    const auto asked = backend_.ask({&charge_, 1}, *this);
    if (const auto *failure = std::get_if<redis_client::Failure>(&asked)) {
        backend_.counters().check_refused(*failure);
        end(Answered::no);
    } else {
        backend_.counters().check_asked();
    }
}

void BackgroundFetch::on_answer(std::optional<redis_client::Failure> failure) {
    backend_.counters().check_answered(failure, asked_, precise_now());
    end(failure ? Answered::no : Answered::yes);
}

void BackgroundFetch::end(Answered answered) {
    keep_leases({&applied_, 1}, answered);
    if (answered == Answered::yes) {
        applied_.result = AppliedRule::Result::verdict;
        remember_verdicts({&applied_, 1}, asked_);
    }
    ngx_destroy_pool(pool_); // this object is in the pool, too
}

std::string_view BackgroundFetch::describe(std::span<char> out) const {
    return describe_rules({&applied_, 1}, out);
}

} // namespace nginx_module
