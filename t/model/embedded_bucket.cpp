#include "embedded_bucket.hpp"

#include "rate_limit/embed.hpp"
#include "rate_limit/text/key.hpp"
#include "redis_client/script/answer.hpp"
#include "redis_client/script/arguments.hpp"
#include "redis_client/script/commands.hpp"
#include "redis_client/script/lua_source.hpp"

#include <cstring>

EMBED(refund_of_1_0_0, "t/model/refund_of_1_0_0.lua");

namespace model {

using redis_client::ByteQueue;
using redis_client::Script;
using redis_client::Sending;

namespace {

std::chrono::microseconds no_clock() {
    return std::chrono::microseconds{0};
}

} // namespace

void EmbeddedBucket::ask(Charge &charge) {
    redis_client::Command check;
    check.charges = {&charge, 1};
    const auto shape = redis_client::shape_of(check.charges);
    const Script &text = script(charge.may_lease ? "lease" : "check",
                                [&] { return redis_client::check_script(shape); });
    ByteQueue command;
    redis_client::write_checks(command, text, sending_of(text), check, no_clock);
    const std::string answer = run(command);
    ASSERT_EQ(answer.size(), redis_client::answer_size(check.charges)) << answer;
    ASSERT_EQ(redis_client::read_answer(answer, check.charges), redis_client::AnswerState::good);
}

Charge EmbeddedBucket::ask(Quota quota, uint64_t cost) {
    quota.cost = cost;
    Charge charge = charge_of(quota, false, key);
    ask(charge);
    return charge;
}

Charge EmbeddedBucket::lease(Quota quota, uint64_t cost, microseconds longest, uint64_t wanted) {
    quota.cost = cost;
    Charge charge = leasing_charge_of(quota, false, key, longest, wanted);
    ask(charge);
    return charge;
}

void EmbeddedBucket::give_back(const Charge &charge, uint64_t units, Refund by) {
    settle(SettlementKind::refund, charge, units, by);
}

void EmbeddedBucket::owe(const Charge &charge, uint64_t units) {
    settle(SettlementKind::debt, charge, units, Refund::whole);
}

void EmbeddedBucket::settle(SettlementKind kind, const Charge &charge, uint64_t units, Refund by) {
    Quota quota = charge.quota;
    quota.cost = units;
    redis_client::Settlement settlement;
    settlement.kind = kind;
    settlement.algorithm = quota.algorithm;
    settlement.redis_key = key;
    settlement.is_on_one_key = by == Refund::on_one_key;
    settlement.arguments = kind == SettlementKind::debt
                               ? redis_client::debt_arguments(quota, false)
                               : redis_client::refund_arguments(quota, charge.to_return());
    ByteQueue command;
    if (by == Refund::of_1_0_0) {
        const Script &text = script("1.0.0", [] {
            return Script(redis_client::without_comments(redis_client::lua_one_check().head) +
                          std::string(rate_limit::embedded(refund_of_1_0_0, refund_of_1_0_0_end)));
        });
        const std::string receipt = std::to_string(charge.receipt);
        const auto numbers =
            rate_limit::traits_of(quota.algorithm).family.refund_arguments(quota).numbers;
        redis_client::write_command(
            command, {"EVAL", text.source, "1", key, std::to_string(numbers[0]),
                      std::to_string(numbers[1]), std::to_string(numbers[2]), receipt});
        EXPECT_EQ(run(command), "");
        return;
    }
    redis_client::SettlementList list;
    list.push_back(settlement);
    const Script &text = script(kind == SettlementKind::debt ? "debt" : "refund", [&] {
        return redis_client::settlement_script(quota.algorithm, kind);
    });
    redis_client::write_settlements(command, text, sending_of(text), list, no_clock);
    EXPECT_EQ(run(command), "1");
}

int64_t EmbeddedBucket::ahead_us() {
    redis_.keys().set_now(now_us);
    return std::max<int64_t>(arrival_us() - now_us, 0);
}

std::string EmbeddedBucket::key_of_past() {
    return std::string(key) + std::string(rate_limit::past_suffix);
}

double EmbeddedBucket::number(size_t index) {
    const auto *value = redis_.keys().find(key);
    const auto *text = value != nullptr ? std::get_if<std::string>(value) : nullptr;
    double number = 0;
    if (text != nullptr) {
        std::memcpy(&number, text->data() + 8 * index, sizeof(number));
    }
    return number;
}

std::string EmbeddedBucket::run(const ByteQueue &command) {
    const replay::Answer answer = redis_.run(command.bytes(), now_us);
    return std::string(answer.text);
}

const Script &EmbeddedBucket::script(const std::string &name, auto make) {
    const auto found = scripts_.find(name);
    return found != scripts_.end() ? found->second
                                   : scripts_.try_emplace(name, make()).first->second;
}

Sending EmbeddedBucket::sending_of(const Script &script) {
    return sent_.insert(&script).second ? Sending::in_full : Sending::by_name;
}

} // namespace model
