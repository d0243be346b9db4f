#include "limiter_test.hpp"

namespace limiter {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Requests of one client, of which so many come that units are leased for the next ones. A check
/// leases them where rules are linked, because it has a script for that; else another check does,
/// for which no request waits.
class LeasesTest : public LimiterTest, public testing::WithParamInterface<bool> {
  protected:
    LeasesTest()
        : rule_(add_rule({"algorithm=fixed_window", "limit=1000", "window=60", "lease=1s"})) {
        if (GetParam()) {
            link();
        }
    }

    /// Answers all that is asked. A check that wants units gets so many.
    void answer_all(uint64_t leased, milliseconds usable_for = seconds{1}) {
        while (!backend->asked.empty()) {
            redis_client::Charge &charge = backend->asked.front().charges.front();
            if (charge.wanted > 0) {
                ++fetches_;
                charge.leased = {.units = leased, .usable_for = usable_for, .receipt = 7};
            }
            backend->answer(granted());
        }
    }

    /// A request, which is granted. Returns by whom.
    RuleResult::Source ask(uint64_t leased = 0) {
        LimitedRequest &limits = begin(request);
        Step step = apply(limits);
        if (step.kind == Step::Kind::wait) {
            answer_all(leased);
            step = limits.take_answers();
        }
        EXPECT_EQ(step.kind, Step::Kind::pass);
        const auto source = limits.rules().first()->is_decided_by(RuleResult::Source::lease)
                                ? RuleResult::Source::lease
                                : RuleResult::Source::redis;
        limits.end();
        return source;
    }

    /// So many requests that the last one makes somebody lease.
    void ask_until_leased(uint64_t leased) {
        for (int i = 0; i < 10 && fetches_ == 0; ++i) {
            EXPECT_EQ(ask(leased), RuleResult::Source::redis);
        }
        EXPECT_EQ(fetches_, 1);
    }

    const Rule &rule_;
    int fetches_ = 0;
};

TEST_P(LeasesTest, GrantRequestsWithoutACheck) {
    ask_until_leased(3);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(ask(), RuleResult::Source::lease);
        answer_all(0); // what is fetched in advance
    }
    EXPECT_EQ(ask(), RuleResult::Source::redis);
    EXPECT_EQ(backend->leases(), 1u) << "until its end, for a rest that comes back";
}

TEST_P(LeasesTest, AreFetchedInAdvance) {
    ask_until_leased(4);
    EXPECT_EQ(ask(), RuleResult::Source::lease);
    while (backend->asked.empty()) {
        EXPECT_EQ(ask(), RuleResult::Source::lease);
    }
    const redis_client::Charge &fetch = backend->asked.front().charges.front();
    EXPECT_EQ(fetch.quota.cost, 0U);
    EXPECT_GT(fetch.wanted, 0U);
    answer_all(50);
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(ask(), RuleResult::Source::lease);
    }
}

TEST_P(LeasesTest, AFetchThatFailsLeasesNothing) {
    ask_until_leased(4);
    while (backend->asked.empty()) {
        EXPECT_EQ(ask(), RuleResult::Source::lease);
    }
    backend->fail(redis_client::Failure::timeout);
    while (ask() == RuleResult::Source::lease) { // what is left of the first one
        EXPECT_TRUE(backend->asked.empty()) << "the next try would cost as much in vain";
    }
    EXPECT_EQ(fetches_, 1);
}

TEST_P(LeasesTest, UnitsThatComeTooLateGoBack) {
    ask_until_leased(4);
    while (backend->asked.empty()) {
        EXPECT_EQ(ask(), RuleResult::Source::lease);
    }
    world.pass(seconds{2});
    answer_all(50);
    EXPECT_EQ(ask(), RuleResult::Source::redis);
    EXPECT_EQ(backend->settled.back(), "refund 50 rl:{per_ip:203.0.113.7}:fixed_window:60000");
}

TEST_P(LeasesTest, UnitsOfARejectedRequestStayInTheLease) {
    ask_until_leased(2);
    add_rule({"algorithm=sliding_log", "limit=1", "window=60"});
    LimitedRequest &limits = begin(request);
    EXPECT_EQ(apply(limits).kind, Step::Kind::wait);
    while (!backend->asked.empty()) {
        backend->answer(denied());
    }
    EXPECT_EQ(limits.take_answers().kind, Step::Kind::reject);
    limits.end();
    level.pop_back();
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(ask(), RuleResult::Source::lease);
        answer_all(0);
    }
}

INSTANTIATE_TEST_SUITE_P(ScriptIsKnown, LeasesTest, testing::Bool());

} // namespace

} // namespace limiter
