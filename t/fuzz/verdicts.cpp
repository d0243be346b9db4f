// Any numbers for an answer of Redis's: either it is none, or all that it leads to is in range, up
// to the headers, which are read back as structured fields.

#include "rate_limit/text/header_values.hpp"
#include "redis_client/script/answer.hpp"
#include "redis_client/script/arguments.hpp"
#include "redis_client/script/script.hpp"
#include "rules.hpp"
#include "targets.hpp"
#include "unit/redis_client/wire.hpp"

#include <map>
#include <string>
#include <vector>

namespace fuzz {
namespace {

using rate_limit::Quota;
using rate_limit::Verdict;
using redis_client::Charge;

/// An RFC 9651 item that is a string, with parameters that are integers or strings.
struct Item {
    std::string name;
    std::map<std::string, std::string, std::less<>> parameters;
};

std::string take_string(std::string_view &text) {
    require(text.starts_with('"'), "a string begins");
    const size_t end = text.find('"', 1);
    require(end != std::string_view::npos, "a string ends");
    const std::string taken(text.substr(1, end - 1));
    for (const char c : taken) {
        require(c >= ' ' && c <= '~' && c != '\\', "a string has characters that need no escape");
    }
    text.remove_prefix(end + 1);
    return taken;
}

std::string take_integer(std::string_view &text) {
    const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    require(end >= 1 && end <= 15, "an integer has 1 to 15 digits");
    const std::string taken(text.substr(0, end));
    text.remove_prefix(end);
    return taken;
}

Item item_of(std::string_view text) {
    Item item;
    item.name = take_string(text);
    while (!text.empty()) {
        require(text.starts_with(';'), "a parameter begins");
        const size_t equals = std::min(text.find('='), text.size() - 1);
        const std::string key(text.substr(1, equals - 1));
        require(!key.empty() && key.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == key.npos,
                "a parameter has a key");
        text.remove_prefix(equals + 1);
        const std::string value = text.starts_with('"') ? take_string(text) : take_integer(text);
        require(item.parameters.emplace(key, value).second, "a parameter stands once");
    }
    return item;
}

void check_headers(const Quota &quota, const Verdict &verdict) {
    rate_limit::Rule rule;
    rule.zone = "zone";
    rule.quota = quota;
    rate_limit::ItemBuffer buffer;
    const Item policy =
        item_of(rate_limit::write_rate_limit_policy_item(rule.name(), quota, buffer));
    require(policy.name == rule.name() &&
                policy.parameters.at("q") == std::to_string(quota.capacity()),
            "a policy tells its name and its quota");
    const bool has_window = policy.parameters.contains("w");
    require(has_window != policy.parameters.contains("qu") &&
                (!has_window || policy.parameters.at("w") != "0"),
            "a policy tells its window or its unit");

    const Item limit = item_of(rate_limit::write_rate_limit_item(rule.name(), verdict, buffer));
    require(limit.name == rule.name() &&
                limit.parameters.at("r") == std::to_string(verdict.remaining),
            "a limit tells its name and what is left");
    require(limit.parameters.contains("t") == (verdict.next_unit.count() > 0),
            "and when more is there, where it is not");
}

void check_answered(const Charge &charge) {
    require_in_range(charge.quota, charge.verdict);
    require(charge.blocked_for.count() == 0 ||
                charge.verdict.decision != rate_limit::Decision::granted,
            "who is blocked is denied");
    require(!charge.is_charged || charge.verdict.decision == rate_limit::Decision::granted,
            "only what is granted is charged");
    check_headers(charge.quota, charge.verdict);
    if (charge.is_charged) {
        const Verdict after = rate_limit::verdict_after_refund(charge.quota, charge.verdict);
        require_in_range(charge.quota, after);
        require(after.remaining >= charge.verdict.remaining, "a refund takes nothing");
        (void)redis_client::refund_arguments(charge.quota, charge.to_return());
    }
}

} // namespace

void verdicts(Input input) {
    std::vector<Charge> charges(input.number(1, redis_client::most_rules));
    std::vector<int64_t> numbers = {input.flag() ? input.any_number() : 1'700'000'000'000'000};
    bool denies = false;
    for (Charge &charge : charges) {
        charge.quota = take_quota(input, input.one_of(rate_limit::all_algorithms));
        charge.dry_run = input.flag();
        charge.block = std::chrono::seconds(!charge.dry_run && input.flag() ? 1 : 0);
        const size_t first = numbers.size();
        for (size_t i = 0; i < rate_limit::reply_length(charge.quota.algorithm); ++i) {
            numbers.push_back(take_reply_number(input, charge.quota));
        }
        denies = denies || (!charge.dry_run && numbers[first] < 0);
        if (charge.blocks()) {
            numbers.push_back(take_reply_number(input, charge.quota));
            denies = denies || numbers.back() != 0;
        }
    }
    const std::string answer = redis_client::packed(numbers);
    require(answer.size() == redis_client::answer_size(charges), "an answer has its size");
    const bool is_answer =
        redis_client::read_answer(answer, charges) == redis_client::AnswerState::good;
    for (const Charge &charge : charges) {
        require(!charge.is_charged || (is_answer && !denies),
                "nothing is charged where a rule denies, or where there is no answer");
        if (is_answer) {
            check_answered(charge);
        }
    }
    const Charge &first = charges.front();
    const Charge &last = charges.back();
    require(!is_answer ||
                !rate_limit::is_tighter(first.quota, first.verdict, last.quota, last.verdict) ||
                !rate_limit::is_tighter(last.quota, last.verdict, first.quota, first.verdict),
            "of two rules one is the tighter at most");
}

} // namespace fuzz
