#include "unit/limiter/limiter_test.hpp"

namespace limiter {

namespace {

using rate_limit::RuleOutcome;
using redis_client::Failure;

class LimitedRequestTest : public LimiterTest {};

TEST_F(LimitedRequestTest, PassesWhereRedisGrants) {
    const Rule &rule = add_rule({"algorithm=sliding_log", "limit=10", "window=60"});
    LimitedRequest &limits = begin(request);
    EXPECT_EQ(apply(limits).kind, Step::Kind::wait);
    EXPECT_EQ(backend->asked.front().charges[0].redis_key,
              "rl:{per_ip:203.0.113.7}:sliding_log:60000");
    world.pass(std::chrono::milliseconds{3});
    backend->answer(granted());
    EXPECT_EQ(request.answered, 1);
    EXPECT_EQ(limits.take_answers().kind, Step::Kind::pass);
    EXPECT_EQ(limits.time_asking(), std::chrono::milliseconds{3});
    EXPECT_EQ(limits.rules().tightest()->verdict()->remaining, 9U);
    EXPECT_EQ(count(rule, RuleOutcome::passed), 1U);
    limits.settle();
    limits.end();
    EXPECT_TRUE(backend->settled.empty());
}

TEST_F(LimitedRequestTest, AppliesARuleOnceThoughTheRequestComesAgain) {
    add_rule({"algorithm=gcra", "limit=10", "window=60"});
    LimitedRequest &limits = begin(request);
    apply(limits);
    backend->answer(granted());
    limits.take_answers();
    EXPECT_EQ(apply(limits).kind, Step::Kind::pass);
    EXPECT_TRUE(backend->asked.empty());
    limits.end();
}

TEST_F(LimitedRequestTest, RemembersADenialForTheNextRequest) {
    const Rule &rule = add_rule({"algorithm=sliding_log", "limit=10", "window=60"});
    LimitedRequest &first = begin(request);
    apply(first);
    backend->answer(denied());
    const Step step = first.take_answers();
    EXPECT_EQ(step.kind, Step::Kind::reject);
    EXPECT_EQ(step.decision.denying->rule, &rule);
    EXPECT_TRUE(first.is_rejected());
    first.end();

    TestRequest next;
    LimitedRequest &second = begin(next);
    EXPECT_EQ(apply(second).kind, Step::Kind::reject);
    EXPECT_TRUE(second.rules().tightest()->is_decided_by(RuleResult::Source::deny_cache));
    EXPECT_TRUE(backend->asked.empty());
    second.end();
    EXPECT_EQ(count(rule, RuleOutcome::rejected), 2U);
}

struct LeasingRuleCase {
    std::vector<std::string_view> leasing; // another rule of the counter
    std::chrono::milliseconds known;       // for how long a denial is known then
};

class LeasingRuleTest : public LimiterTest, public testing::WithParamInterface<LeasingRuleCase> {};

TEST_P(LeasingRuleTest, BoundsHowLongDenialsOfItsCounterAreKnown) {
    std::vector<std::string_view> words{"algorithm=fixed_window", "window=60"};
    words.insert(words.end(), GetParam().leasing.begin(), GetParam().leasing.end());
    add_rule(words);
    level.clear();
    add_rule({"algorithm=fixed_window", "limit=10", "window=60"});
    link();
    const auto ask = [&] {
        LimitedRequest &limits = begin(request);
        const bool asks = apply(limits).kind == Step::Kind::wait;
        if (asks) {
            backend->answer(denied());
            limits.take_answers();
        }
        limits.end();
        return asks;
    };
    EXPECT_TRUE(ask());
    constexpr std::chrono::milliseconds drift{10}; // a clock may be wrong by so much
    world.pass(GetParam().known - drift);
    EXPECT_FALSE(ask());
    world.pass(drift);
    EXPECT_TRUE(ask());
}

INSTANTIATE_TEST_SUITE_P(
    All, LeasingRuleTest,
    testing::Values(LeasingRuleCase{{"limit=100", "lease=2s"}, std::chrono::seconds{2}},
                    LeasingRuleCase{{"limit=100", "lease=auto"}, std::chrono::milliseconds{1875}},
                    LeasingRuleCase{{"limit=$arg_n", "lease=2s"}, std::chrono::seconds{2}},
                    LeasingRuleCase{{"limit=$arg_n", "lease=auto"}, std::chrono::seconds{4}},
                    // Too small to be leased, until an operator raises it:
                    LeasingRuleCase{{"limit=10", "lease=auto"}, std::chrono::seconds{4}},
                    LeasingRuleCase{{"limit=100"}, std::chrono::seconds{5}},
                    LeasingRuleCase{{"limit=100", "lease=2s", "name=other"},
                                    std::chrono::seconds{5}}));

/// A rule that denies, and the others of its counter, on other levels.
struct KnownDenialCase {
    std::vector<std::string_view> own;
    std::vector<std::vector<std::string_view>> others;
    uint64_t remaining;
    std::chrono::milliseconds known; // for how long
};

constexpr std::chrono::milliseconds until_next_unit{2000};
constexpr std::chrono::milliseconds until_retry{5000};
constexpr std::chrono::milliseconds not_at_all{0};

class KnownDenialTest : public LimiterTest, public testing::WithParamInterface<KnownDenialCase> {
  protected:
    void add(const std::vector<std::string_view> &words) {
        level.clear();
        std::vector<std::string_view> all{"window=60"};
        all.insert(all.end(), words.begin(), words.end());
        add_rule(all);
    }
    /// Returns whether Redis was asked. It denies.
    bool ask() {
        LimitedRequest &limits = begin(request);
        const bool asks = apply(limits).kind == Step::Kind::wait;
        if (asks) {
            rate_limit::Verdict verdict = denied();
            verdict.remaining = GetParam().remaining;
            verdict.next_unit = until_next_unit;
            backend->answer(verdict);
            limits.take_answers();
        }
        limits.end();
        return asks;
    }
};

TEST_P(KnownDenialTest, IsKnownNoLongerThanNobodyElsePasses) {
    for (const auto &other : GetParam().others) {
        add(other);
    }
    add(GetParam().own);
    link();
    request.texts = {{RuleText::limit, "10"}, {RuleText::burst, "10"}, {RuleText::cost, "5"}};
    EXPECT_TRUE(ask());
    constexpr std::chrono::milliseconds drift{10}; // a clock may be wrong by so much
    if (GetParam().known > drift) {
        world.pass(GetParam().known - drift);
        EXPECT_FALSE(ask());
        world.pass(drift);
    }
    EXPECT_TRUE(ask());
}

INSTANTIATE_TEST_SUITE_P(
    Costs, KnownDenialTest,
    testing::Values(
        KnownDenialCase{{"algorithm=sliding_log", "limit=10"}, {}, 0, until_retry},
        KnownDenialCase{{"algorithm=sliding_log", "limit=10", "cost=5"}, {}, 3, until_retry},
        KnownDenialCase{{"algorithm=sliding_log", "limit=10", "cost=$c"}, {}, 0, until_next_unit},
        KnownDenialCase{{"algorithm=sliding_log", "limit=10", "cost=$c"}, {}, 1, not_at_all},
        KnownDenialCase{{"algorithm=fixed_window", "limit=10", "cost=$c"}, {}, 0, until_retry},
        KnownDenialCase{{"algorithm=fixed_window", "limit=10", "cost=$c"}, {}, 1, not_at_all},
        // Other locations ask for another cost.
        KnownDenialCase{{"algorithm=gcra", "limit=10", "burst=9", "cost=5"},
                        {{"algorithm=gcra", "limit=10", "burst=9"}},
                        0,
                        until_next_unit},
        KnownDenialCase{{"algorithm=gcra", "limit=10", "burst=9", "cost=5"},
                        {{"algorithm=gcra", "limit=10", "burst=9", "cost=4"}},
                        3,
                        not_at_all}, // a request that has paid 4 asks for 1 more here
        KnownDenialCase{{"algorithm=gcra", "limit=10", "burst=9", "cost=5"},
                        {{"algorithm=gcra", "limit=10", "burst=9", "cost=5", "dry_run"}},
                        3,
                        until_retry},
        KnownDenialCase{{"algorithm=gcra", "limit=10", "burst=9", "cost=5"},
                        {{"algorithm=gcra", "limit=10", "burst=9", "cost=0"}},
                        3,
                        until_retry}, // that one takes nothing
        KnownDenialCase{{"algorithm=gcra", "limit=10", "burst=9", "cost=5"},
                        {{"algorithm=gcra", "limit=10", "burst=9", "name=other"}},
                        3,
                        until_retry},
        // A lease may be of one unit. It bounds the time, too.
        KnownDenialCase{{"algorithm=sliding_log", "limit=100", "cost=5"},
                        {{"algorithm=sliding_log", "limit=100", "cost=5", "lease=3s"}},
                        1,
                        not_at_all}));

INSTANTIATE_TEST_SUITE_P(
    Limits, KnownDenialTest,
    testing::Values(KnownDenialCase{{"algorithm=sliding_log", "limit=10"},
                                    {{"algorithm=sliding_log", "limit=11"}},
                                    0,
                                    not_at_all},
                    KnownDenialCase{{"algorithm=sliding_log", "limit=10"},
                                    {{"algorithm=sliding_log", "limit=11", "dry_run"}},
                                    0,
                                    not_at_all},
                    KnownDenialCase{{"algorithm=sliding_log", "limit=10"},
                                    {{"algorithm=sliding_log", "limit=9"}},
                                    0,
                                    until_retry},
                    KnownDenialCase{{"algorithm=sliding_log", "limit=10"},
                                    {{"algorithm=sliding_log", "limit=9"},
                                     {"algorithm=sliding_log", "limit=11"}},
                                    0,
                                    not_at_all},
                    KnownDenialCase{{"algorithm=fixed_window", "limit=10"},
                                    {{"algorithm=fixed_window", "limit=11"}},
                                    0,
                                    until_retry}, // the window ends when it ends
                    KnownDenialCase{{"algorithm=sliding_log", "limit=$n"}, {}, 0, not_at_all},
                    KnownDenialCase{{"algorithm=sliding_log", "limit=10"},
                                    {{"algorithm=sliding_log", "limit=$n"}},
                                    0,
                                    not_at_all},
                    KnownDenialCase{
                        {"algorithm=token_bucket", "limit=10", "burst=$n"}, {}, 0, not_at_all},
                    KnownDenialCase{{"algorithm=token_bucket", "limit=10", "burst=10"},
                                    {{"algorithm=token_bucket", "limit=10", "burst=11"}},
                                    0,
                                    not_at_all},
                    KnownDenialCase{{"algorithm=token_bucket", "limit=10", "burst=10"},
                                    {{"algorithm=token_bucket", "limit=10", "burst=9"}},
                                    0,
                                    until_retry},
                    // What is taken is worth less to a lower limit: it lets a request pass sooner.
                    KnownDenialCase{{"algorithm=token_bucket", "limit=10", "burst=10"},
                                    {{"algorithm=token_bucket", "limit=9", "burst=10"}},
                                    0,
                                    not_at_all}));

/// How long a client is blocked by a rule, beside which others of its counter may stand.
struct KnownBlockCase {
    std::vector<std::vector<std::string_view>> others;
    std::chrono::milliseconds blocked_for;
    std::chrono::milliseconds known;
};

class KnownBlockTest : public LimiterTest, public testing::WithParamInterface<KnownBlockCase> {};

TEST_P(KnownBlockTest, IsKnownUntilWhatOthersTakeMayCountWhenItEnds) {
    add_rule({"algorithm=sliding_log", "limit=10", "window=1", "block=60s"});
    const RuleList own = level;
    for (const auto &other : GetParam().others) {
        add_rule(other);
    }
    link(); // as if the others stood elsewhere
    level = own;
    const auto ask = [&] {
        LimitedRequest &limits = begin(request);
        const bool asks = apply(limits).kind == Step::Kind::wait;
        if (asks) {
            rate_limit::Verdict verdict = denied();
            verdict.retry_after = GetParam().blocked_for;
            backend->asked.front().charges[0].blocked_for = GetParam().blocked_for;
            backend->answer(verdict);
            limits.take_answers();
        }
        limits.end();
        return asks;
    };
    EXPECT_TRUE(ask());
    const std::chrono::milliseconds drift = GetParam().blocked_for / 500;
    if (GetParam().known > drift) {
        world.pass(GetParam().known - drift);
        EXPECT_FALSE(ask());
        world.pass(drift);
    }
    EXPECT_TRUE(ask());
}

INSTANTIATE_TEST_SUITE_P(
    All, KnownBlockTest,
    testing::Values(
        KnownBlockCase{{}, std::chrono::seconds{50}, std::chrono::seconds{50}},
        KnownBlockCase{{{"algorithm=sliding_log", "limit=10", "window=1", "block=60s"}},
                       std::chrono::seconds{50},
                       std::chrono::seconds{50}},
        // A log forgets at the latest after 9/8 of its window, and leases are a quarter of it more.
        KnownBlockCase{{{"algorithm=sliding_log", "limit=10", "window=1"}},
                       std::chrono::seconds{50},
                       std::chrono::milliseconds{48593}},
        KnownBlockCase{{{"algorithm=sliding_log", "limit=10", "window=1", "block=60s", "dry_run"}},
                       std::chrono::seconds{50},
                       std::chrono::milliseconds{48593}},
        KnownBlockCase{{{"algorithm=sliding_log", "limit=10", "window=1"}},
                       std::chrono::seconds{1},
                       not_at_all}));

TEST_F(LimitedRequestTest, RemembersNoDenialWithoutThoseThatLastLonger) {
    const Rule &brief = add_rule({"algorithm=sliding_log", "limit=10", "window=60", "name=brief"});
    add_rule({"algorithm=sliding_log", "limit=10", "window=60", "name=long", "cost=$c"});
    link();
    request.texts[RuleText::cost] = "5";
    const auto ask = [&](uint64_t remaining) {
        TestRequest next = request;
        LimitedRequest &limits = begin(next);
        const bool asks = apply(limits).kind == Step::Kind::wait;
        if (asks) {
            const auto [charges, callbacks] = backend->asked.front();
            charges[0].verdict = charges[1].verdict = denied();
            charges[1].verdict.retry_after = std::chrono::seconds{50};
            charges[1].verdict.next_unit = std::chrono::seconds{5};
            charges[1].verdict.remaining = remaining;
            callbacks->on_answer(std::nullopt);
            backend->asked.pop_front();
            EXPECT_NE(limits.take_answers().decision.denying->rule, &brief);
        }
        limits.end();
        return asks;
    };
    EXPECT_TRUE(ask(1)); // the rule with the longer wait is to be asked again
    EXPECT_TRUE(ask(0));
    EXPECT_FALSE(ask(0)); // both are known
}

TEST_F(LimitedRequestTest, RemembersADenialOfWhoDoesNotWaitForIt) {
    const Rule &rule = add_rule({"algorithm=sliding_log", "limit=10", "window=60"});
    TestRequest gone;
    LimitedRequest &first = begin(gone);
    apply(first);
    first.abandon();
    first.end();
    backend->answer(denied());

    LimitedRequest &second = begin(request);
    EXPECT_EQ(apply(second).kind, Step::Kind::reject);
    EXPECT_TRUE(backend->asked.empty());
    second.end();
    EXPECT_EQ(count(rule, RuleOutcome::rejected), 2U);
}

TEST_F(LimitedRequestTest, DryRunDeniesNothing) {
    const Rule &rule = add_rule({"algorithm=sliding_log", "limit=10", "window=60"});
    LimitedRequest &limits = begin(request);
    apply(limits, true);
    backend->answer(denied());
    EXPECT_EQ(limits.take_answers().kind, Step::Kind::pass);
    EXPECT_EQ(request.dry_runs, 1);
    EXPECT_EQ(count(rule, RuleOutcome::dry_run_rejected), 1U);
    limits.end();
}

TEST_F(LimitedRequestTest, ALimitOfZeroNeedsNoRedis) {
    add_rule({"algorithm=sliding_log", "limit=0", "window=60"});
    LimitedRequest &limits = begin(request);
    EXPECT_EQ(apply(limits).kind, Step::Kind::reject);
    EXPECT_TRUE(backend->asked.empty());
    limits.end();
}

TEST_F(LimitedRequestTest, AnEmptyKeyExempts) {
    add_rule({"algorithm=sliding_log", "limit=0", "window=60"});
    request.client_key.clear();
    LimitedRequest &limits = begin(request);
    EXPECT_EQ(apply(limits).kind, Step::Kind::pass);
    EXPECT_EQ(limits.rules().first(), nullptr);
    limits.end();
}

TEST_F(LimitedRequestTest, AKeyHasNoBlanksAtItsEnds) {
    zone.set_key("$http_x_key");
    add_rule({"algorithm=fixed_window", "limit=0", "window=60"});
    const std::string address("\x09\x01\x02\x20", 4);
    const std::pair<std::string, std::string> keys[] = {
        {"\t k ", "k"}, {"k", "k"}, {" a b\t", "a b"}, {" \t", ""}, {address, address}};
    for (const auto &[given, expected] : keys) {
        TestRequest one;
        one.client_key = given;
        one.client_address = address;
        LimitedRequest &limits = begin(one);
        apply(limits);
        const AppliedRule *first = limits.rules().first();
        EXPECT_EQ(first != nullptr ? first->key : "", expected);
        EXPECT_EQ(limits.is_rejected(), !expected.empty());
        limits.end();
    }
}

TEST_F(LimitedRequestTest, AKeyOfBytesStaysAsItIs) {
    zone.set_key("$binary_remote_addr");
    add_rule({"algorithm=fixed_window", "limit=0", "window=60"});
    request.client_key = " \t ";
    LimitedRequest &limits = begin(request);
    apply(limits);
    ASSERT_NE(limits.rules().first(), nullptr);
    EXPECT_EQ(limits.rules().first()->key, " \t ");
    limits.end();
}

TEST_F(LimitedRequestTest, HoldsBackForTheLongestDelay) {
    add_rule({"algorithm=leaky_bucket", "limit=10", "window=1", "burst=5"});
    LimitedRequest &limits = begin(request);
    apply(limits);
    rate_limit::Verdict late = granted();
    late.delay = std::chrono::milliseconds{250};
    backend->answer(late);
    const Step step = limits.take_answers();
    EXPECT_EQ(step.kind, Step::Kind::hold_back);
    EXPECT_EQ(step.decision.delaying->delay(), std::chrono::milliseconds{250});
    limits.end();
}

struct FailureCase {
    rate_limit::OnError on_error;
    Step::Kind first;  // of two requests, of a rule that grants one
    Step::Kind second; //
    RuleOutcome outcome_of_second;
};

class FailureTest : public LimiterTest, public testing::WithParamInterface<FailureCase> {};

TEST_P(FailureTest, FollowsOnErrorWhetherRedisFailsAtOnceOrLater) {
    zone.on_error = GetParam().on_error;
    const Rule &rule = add_rule({"algorithm=fixed_window", "limit=1", "window=60"});
    LimitedRequest &first = begin(request);
    EXPECT_EQ(apply(first).kind, Step::Kind::wait);
    backend->fail(Failure::timeout);
    EXPECT_EQ(first.take_answers().kind, GetParam().first);
    first.end();

    backend->refuses = Failure::breaker;
    TestRequest next;
    LimitedRequest &second = begin(next);
    EXPECT_EQ(apply(second).kind, GetParam().second);
    EXPECT_EQ(next.answered, 0);
    second.end();
    EXPECT_GE(count(rule, GetParam().outcome_of_second), 1U);
}

INSTANTIATE_TEST_SUITE_P(
    All, FailureTest,
    testing::Values(FailureCase{rate_limit::OnError::open, Step::Kind::pass, Step::Kind::pass,
                                RuleOutcome::error_open},
                    FailureCase{rate_limit::OnError::closed, Step::Kind::reject, Step::Kind::reject,
                                RuleOutcome::error_closed},
                    FailureCase{rate_limit::OnError::local, Step::Kind::pass, Step::Kind::reject,
                                RuleOutcome::local_rejected}));

TEST_F(LimitedRequestTest, GivesBackWhatACheckChargedIfAnotherOneDenies) {
    const Rule &kept = add_rule({"algorithm=sliding_log", "limit=10", "window=60", "name=kept"});
    const Rule &full = add_rule({"algorithm=sliding_log", "limit=10", "window=1", "name=full"});
    EXPECT_TRUE(are_asked_together(kept, full));
    LimitedRequest &limits = begin(request);
    apply(limits);
    ASSERT_EQ(backend->asked.front().charges.size(), 2U);
    const auto [charges, callbacks] = backend->asked.front();
    charges[0].is_charged = true;
    charges[1].verdict = denied();
    callbacks->on_answer(std::nullopt);
    EXPECT_EQ(limits.take_answers().kind, Step::Kind::reject);
    EXPECT_EQ(backend->refunded, 1U);
    EXPECT_EQ(count(kept, RuleOutcome::uncharged), 1U);
    EXPECT_EQ(count(full, RuleOutcome::rejected), 1U);
    limits.end();
}

TEST_F(LimitedRequestTest, ReportsANumberThatIsNone) {
    const Rule &rule = add_rule({"algorithm=sliding_log", "limit=$arg_n", "window=60"});
    request.texts[RuleText::limit] = "ten";
    LimitedRequest &limits = begin(request);
    EXPECT_EQ(apply(limits).kind, Step::Kind::pass);
    EXPECT_EQ(request.invalid, std::vector<std::string>{"limit=ten"});
    EXPECT_EQ(count(rule, RuleOutcome::invalid), 1U);
    EXPECT_EQ(limits.rules().first(), nullptr); // headers show nothing of it
    limits.end();
}

TEST_F(LimitedRequestTest, AnInvalidNumberRejectsWhereErrorsDo) {
    zone.on_error = rate_limit::OnError::closed;
    add_rule({"algorithm=sliding_log", "limit=$arg_n", "window=60"});
    request.texts[RuleText::limit] = "-1";
    LimitedRequest &limits = begin(request);
    EXPECT_EQ(apply(limits).kind, Step::Kind::reject);
    limits.end();
}

TEST_F(LimitedRequestTest, AnEmptyVariableExemptsWhateverTheOthersAre) {
    add_rule({"algorithm=sliding_log", "limit=$arg_n", "cost=$arg_c", "window=60"});
    request.texts[RuleText::limit] = "ten";
    LimitedRequest &limits = begin(request);
    EXPECT_EQ(apply(limits).kind, Step::Kind::pass);
    EXPECT_TRUE(request.invalid.empty());
    limits.end();
}

struct FinalCostCase {
    const char *final_cost;
    std::vector<std::string> settled;
};

class FinalCostTest : public LimiterTest, public testing::WithParamInterface<FinalCostCase> {
  protected:
    FinalCostTest() {
        add_rule({"algorithm=gcra", "limit=100", "burst=99", "window=60", "cost=5",
                  "final_cost=$arg_f"});
        request.texts[RuleText::final_cost] = GetParam().final_cost;
    }
};

TEST_P(FinalCostTest, IsSettledWhenTheRequestEnds) {
    LimitedRequest &limits = begin(request);
    apply(limits);
    backend->answer(granted());
    limits.take_answers();
    EXPECT_TRUE(backend->settled.empty());
    limits.settle();
    limits.end();
    EXPECT_EQ(backend->settled, GetParam().settled);
}

TEST_P(FinalCostTest, IsSettledOfAnAbandonedCheckThatWasAnsweredBefore) {
    LimitedRequest &limits = begin(request);
    apply(limits);
    limits.abandon();
    backend->answer(granted());
    EXPECT_EQ(request.answered, 0); // nobody waits
    limits.settle();
    limits.end();
    EXPECT_EQ(backend->settled, GetParam().settled);
}

TEST_P(FinalCostTest, IsSettledOfAnAbandonedCheckThatIsAnsweredAfterItsRequest) {
    LimitedRequest &limits = begin(request);
    apply(limits);
    limits.abandon();
    limits.settle();
    limits.end();
    EXPECT_TRUE(backend->settled.empty());
    EXPECT_EQ(backend->abandoned, 1);
    backend->answer(granted());
    EXPECT_EQ(backend->settled, GetParam().settled);
}

TEST_P(FinalCostTest, IsNotSettledOfARejectedRequest) {
    LimitedRequest &limits = begin(request);
    apply(limits);
    backend->answer(denied());
    limits.take_answers();
    limits.settle();
    limits.end();
    EXPECT_TRUE(backend->settled.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, FinalCostTest,
    testing::Values(FinalCostCase{"8", {"debt 3 rl:{per_ip:203.0.113.7}:gcra:60000"}},
                    FinalCostCase{"2", {"refund 3 rl:{per_ip:203.0.113.7}:gcra:60000"}},
                    FinalCostCase{"5", {}}, FinalCostCase{"", {}}, FinalCostCase{"many", {}}));

/// A request is led to a second rule of its counter, and nobody waits for the check of that one.
struct SecondRuleCase {
    std::vector<std::string_view> second;
    const char *final_cost;
    std::vector<std::string> settled;
};

class SecondRuleTest : public LimiterTest, public testing::WithParamInterface<SecondRuleCase> {
  protected:
    SecondRuleTest() { request.texts[RuleText::final_cost] = GetParam().final_cost; }

    /// Leads the request to a rule of the same counter in another location.
    void lead(LimitedRequest &limits, const std::vector<std::string_view> &more) {
        level.clear();
        std::vector<std::string_view> words{"algorithm=fixed_window", "window=60"};
        words.insert(words.end(), more.begin(), more.end());
        add_rule(words);
        apply(limits);
    }
    LimitedRequest &begin_and_leave() {
        LimitedRequest &limits = begin(request);
        lead(limits, {"limit=100", "cost=5", "final_cost=$arg_f"});
        backend->answer(granted());
        limits.take_answers();
        lead(limits, GetParam().second);
        limits.abandon();
        return limits;
    }
    void expect_one_settlement() const {
        EXPECT_EQ(backend->settled, GetParam().settled);
        EXPECT_EQ(backend->settled_requests, 1);
    }
};

TEST_P(SecondRuleTest, IsSettledWithTheFirstOneIfItIsAnsweredBeforeTheEnd) {
    LimitedRequest &limits = begin_and_leave();
    backend->answer(granted());
    limits.settle();
    limits.end();
    expect_one_settlement();
}

TEST_P(SecondRuleTest, IsSettledWithTheFirstOneIfItIsAnsweredAfterTheEnd) {
    LimitedRequest &limits = begin_and_leave();
    limits.settle();
    limits.end();
    backend->answer(granted());
    expect_one_settlement();
}

INSTANTIATE_TEST_SUITE_P(
    All, SecondRuleTest,
    testing::Values(SecondRuleCase{{"limit=50", "cost=5", "final_cost=$arg_f"},
                                   "20",
                                   {"debt 15 rl:{per_ip:203.0.113.7}:fixed_window:60000"}},
                    SecondRuleCase{{"limit=50", "cost=5", "final_cost=$arg_f"},
                                   "2",
                                   {"refund 3 rl:{per_ip:203.0.113.7}:fixed_window:60000"}},
                    SecondRuleCase{{"limit=50", "cost=15"},
                                   "20",
                                   {"debt 5 rl:{per_ip:203.0.113.7}:fixed_window:60000"}},
                    SecondRuleCase{{"limit=50", "cost=15"},
                                   "7",
                                   {"refund 8 rl:{per_ip:203.0.113.7}:fixed_window:60000"}},
                    SecondRuleCase{{"limit=50", "cost=15"},
                                   "2",
                                   {"refund 3 rl:{per_ip:203.0.113.7}:fixed_window:60000",
                                    "refund 10 rl:{per_ip:203.0.113.7}:fixed_window:60000"}}));

class ThirdRuleTest : public SecondRuleTest {};

TEST_P(ThirdRuleTest, IsSettledWithOneBeforeItWhoseAnswerCameLater) {
    LimitedRequest &limits = begin_and_leave();
    lead(limits, {"limit=20", "cost=15"}); // is charged 10, too, for the other 10 are not known yet
    backend->answer(granted());
    backend->answer(granted());
    limits.take_answers();
    limits.settle();
    limits.end();
    expect_one_settlement();
}

INSTANTIATE_TEST_SUITE_P(All, ThirdRuleTest,
                         testing::Values(SecondRuleCase{
                             {"limit=50", "cost=15"},
                             "2",
                             {"refund 3 rl:{per_ip:203.0.113.7}:fixed_window:60000",
                              "refund 10 rl:{per_ip:203.0.113.7}:fixed_window:60000",
                              "refund 10 rl:{per_ip:203.0.113.7}:fixed_window:60000"}}));

TEST_F(LimitedRequestTest, IsSettledWithoutASecondRuleThatDeniesWhoHasLeft) {
    request.texts[RuleText::final_cost] = "2";
    add_rule({"algorithm=fixed_window", "limit=100", "window=60", "cost=5", "final_cost=$arg_f"});
    LimitedRequest &limits = begin(request);
    apply(limits);
    backend->answer(granted());
    limits.take_answers();
    level.clear();
    add_rule({"algorithm=fixed_window", "limit=50", "window=60", "cost=15"});
    apply(limits);
    limits.abandon();
    limits.settle();
    limits.end();
    backend->answer(denied());
    EXPECT_EQ(backend->settled,
              std::vector<std::string>{"refund 3 rl:{per_ip:203.0.113.7}:fixed_window:60000"});
}

/// A rule of one counter that a request meets, in one location after the other. If a check asks for
/// it, `answer` is its verdict; without one Redis does not answer.
struct MetRule {
    std::vector<std::string_view> words;
    std::optional<rate_limit::Decision> answer;
};

struct MetRulesCase {
    std::vector<MetRule> rules;
    std::vector<std::string> settled;
};

class MetRulesTest : public LimiterTest, public testing::WithParamInterface<MetRulesCase> {
  protected:
    MetRulesTest() { zone.on_error = rate_limit::OnError::open; }

    void meet(LimitedRequest &limits, const MetRule &met) {
        level.clear();
        std::vector<std::string_view> words{"algorithm=fixed_window", "window=60"};
        words.insert(words.end(), met.words.begin(), met.words.end());
        const Rule &rule = add_rule(words);
        if (limits.apply({level, rule.dry_run}, rate_limit::Phase::access).kind !=
            Step::Kind::wait) {
            return;
        }
        if (met.answer) {
            rate_limit::Verdict verdict = granted();
            verdict.decision = *met.answer;
            backend->answer(verdict);
        } else {
            backend->fail(Failure::timeout);
        }
        EXPECT_EQ(limits.take_answers().kind, Step::Kind::pass);
    }
};

TEST_P(MetRulesTest, AreSettledByTheFinalCostOfAnyOfThem) {
    request.texts[RuleText::final_cost] = "8";
    LimitedRequest &limits = begin(request);
    for (const MetRule &rule : GetParam().rules) {
        meet(limits, rule);
    }
    limits.settle();
    limits.end();
    EXPECT_EQ(backend->settled, GetParam().settled);
    EXPECT_TRUE(backend->asked.empty());
}

const std::vector<std::string> three_more{"debt 3 rl:{per_ip:203.0.113.7}:fixed_window:60000"};

INSTANTIATE_TEST_SUITE_P(
    All, MetRulesTest,
    testing::Values(
        // A dry run that would deny covers the one with the final cost.
        MetRulesCase{{{{"limit=5", "cost=5", "dry_run"}, rate_limit::Decision::denied},
                      {{"limit=50", "cost=5"}, rate_limit::Decision::granted},
                      {{"limit=50", "cost=5", "final_cost=$f", "dry_run"}, std::nullopt}},
                     three_more},
        // So does a rule without a verdict.
        MetRulesCase{{{{"limit=50", "cost=5"}, std::nullopt},
                      {{"limit=20", "cost=5"}, rate_limit::Decision::granted},
                      {{"limit=50", "cost=5", "final_cost=$f"}, std::nullopt}},
                     three_more},
        // The rule that has it would deny, or has no verdict.
        MetRulesCase{
            {{{"limit=50", "cost=5"}, rate_limit::Decision::granted},
             {{"limit=5", "cost=5", "final_cost=$f", "dry_run"}, rate_limit::Decision::denied}},
            three_more},
        MetRulesCase{{{{"limit=50", "cost=5"}, rate_limit::Decision::granted},
                      {{"limit=20", "cost=5", "final_cost=$f"}, std::nullopt}},
                     three_more},
        // Nobody has charged the counter.
        MetRulesCase{{{{"limit=50", "cost=5", "final_cost=$f"}, std::nullopt}}, {}},
        MetRulesCase{
            {{{"limit=50", "cost=5", "final_cost=$f", "dry_run"}, rate_limit::Decision::denied}},
            {}},
        // Another counter was.
        MetRulesCase{{{{"limit=50", "cost=5", "name=other"}, rate_limit::Decision::granted},
                      {{"limit=50", "cost=5", "final_cost=$f"}, std::nullopt}},
                     {}}));

TEST_F(LimitedRequestTest, AnAbandonedCheckIsCountedOnceAndLivesUntilItsAnswer) {
    const Rule &rule = add_rule({"algorithm=sliding_log", "limit=10", "window=60"});
    {
        TestRequest gone;
        LimitedRequest &limits = begin(gone);
        apply(limits);
        limits.end();
    }
    EXPECT_EQ(count(rule, RuleOutcome::passed), 0U);
    backend->answer(granted());
    EXPECT_EQ(count(rule, RuleOutcome::passed), 1U);
}

TEST_F(LimitedRequestTest, AnAbandonedCheckThatFailsIsCountedByThisHost) {
    const Rule &rule = add_rule({"algorithm=sliding_log", "limit=10", "window=60"});
    LimitedRequest &limits = begin(request);
    apply(limits);
    limits.end();
    backend->fail(Failure::connect);
    EXPECT_EQ(count(rule, RuleOutcome::local_passed), 1U);
}

TEST_F(LimitedRequestTest, WhoHasLeftCountsOnceAmongTheKeysThatAreRejectedMost) {
    settings.mode = redis_client::Mode::cluster;
    add_rule({"algorithm=sliding_log", "limit=10", "window=60"});
    add_rule({"algorithm=sliding_log", "limit=10", "window=60", "name=other", "shards=4"});
    zone.memory.top_keys().set_kept(zone.kept_top_keys());
    LimitedRequest &limits = begin(request);
    apply(limits);
    ASSERT_EQ(backend->asked.size(), 2U) << "each has a hash slot of its own";
    limits.end();
    backend->answer(denied());
    backend->answer(denied());
    rate_limit::TopKeys::Buffer buffer;
    const auto counted = zone.memory.top_keys().read(zone.kept_top_keys(), buffer);
    ASSERT_EQ(counted.size(), 1U);
    EXPECT_EQ(counted.front().rejected, 1U);
}

TEST_F(LimitedRequestTest, AnOutageGivesNoFreshLimitToWhoNeverWaitsForVerdicts) {
    zone.on_error = rate_limit::OnError::local;
    add_rule({"algorithm=sliding_log", "limit=2", "window=60"});
    LimitedRequest &gone = begin(request);
    apply(gone);
    gone.end();
    backend->answer(
        {.remaining = 0, .next_unit = std::chrono::seconds{60}, .reset = std::chrono::seconds{60}});

    TestRequest other;
    LimitedRequest &limits = begin(other);
    apply(limits);
    backend->fail(Failure::connect);
    EXPECT_EQ(limits.take_answers().kind, Step::Kind::reject);
    limits.end();
}

TEST_F(LimitedRequestTest, ThisHostDoesNotChargeWhatADryRunDenies) {
    zone.on_error = rate_limit::OnError::local;
    backend->refuses = Failure::breaker;
    const Rule &rule = add_rule({"algorithm=fixed_window", "limit=1", "window=60", "cost=0",
                                 "final_cost=$arg_f", "dry_run"});
    request.texts[RuleText::final_cost] = "1";
    for (int i = 0; i < 3; ++i) {
        LimitedRequest &limits = begin(request);
        EXPECT_EQ(apply(limits).kind, Step::Kind::pass);
        limits.settle();
        limits.end();
    }
    EXPECT_EQ(count(rule, RuleOutcome::dry_run_rejected), 2U);
    EXPECT_EQ(rule.counters->read().of(rate_limit::RuleCounter::settlements_charged), 1U);
}

TEST_F(LimitedRequestTest, ARequestThatWentElsewhereAppliesOtherRulesMeanwhile) {
    add_rule({"algorithm=sliding_log", "limit=10", "window=60", "name=one"});
    LimitedRequest &limits = begin(request);
    apply(limits);
    limits.abandon();
    level.clear();
    add_rule({"algorithm=sliding_log", "limit=10", "window=1", "name=two"});
    EXPECT_EQ(apply(limits).kind, Step::Kind::wait);
    ASSERT_EQ(backend->asked.size(), 2U);
    backend->answer(denied()); // of the one that nobody waits for
    EXPECT_EQ(request.answered, 0);
    backend->answer(granted());
    EXPECT_EQ(request.answered, 1);
    EXPECT_EQ(limits.take_answers().kind, Step::Kind::pass);
    limits.end();
}

TEST_F(LimitedRequestTest, GivesPermitsBackOfAnswersThatItNeverTook) {
    add_rule({"algorithm=concurrency", "limit=10", "window=60"});
    for (const bool leaves_before : {false, true}) {
        LimitedRequest &limits = begin(request);
        apply(limits);
        redis_client::Permit permit;
        backend->asked.front().charges[0].permit = &permit;
        if (leaves_before) {
            limits.abandon(); // the session gives the permit back
            EXPECT_EQ(backend->asked.front().charges[0].permit, &permit);
            backend->asked.front().charges[0].permit = nullptr;
        }
        backend->answer(granted());
        limits.end();
        EXPECT_EQ(std::exchange(backend->released, 0), leaves_before ? 0 : 1);
    }
}

TEST_F(LimitedRequestTest, GivesPermitsBackWhenItEnds) {
    add_rule({"algorithm=concurrency", "limit=10", "window=60"});
    LimitedRequest &limits = begin(request);
    apply(limits);
    redis_client::Permit permit;
    backend->asked.front().charges[0].permit = &permit;
    backend->answer(granted());
    limits.take_answers();
    EXPECT_EQ(backend->released, 0);
    limits.end();
    EXPECT_EQ(backend->released, 1);
}

} // namespace

} // namespace limiter
