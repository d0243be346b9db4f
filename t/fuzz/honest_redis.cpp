#include "honest_redis.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <utility>

namespace fuzz {
namespace {

using namespace std::chrono_literals;
using rate_limit::Algorithm;
using rate_limit::Quota;
using redis_client::Asked;
using redis_client::WireCommand;

constexpr uint64_t limit = 100;
constexpr int64_t interval = 600'000; // of a bucket, microseconds

Asked rule(Algorithm algorithm, uint64_t cost, bool dry_run = false) {
    Asked asked{.quota = {.algorithm = algorithm, .window = 60s, .limit = limit, .cost = cost},
                .redis_key = {},
                .dry_run = dry_run};
    if (is_bucket(algorithm)) {
        asked.quota.burst = algorithm == Algorithm::token_bucket ? limit : limit - 1;
    }
    return asked;
}

Asked blocking(Asked asked) {
    asked.block = 900s;
    return asked;
}

std::vector<Question> make_questions() {
    const std::vector<Asked> of_all[] = {
        {rule(Algorithm::sliding_log, 1)},
        {rule(Algorithm::sliding_log, 0)},
        {rule(Algorithm::token_bucket, 3)},
        {rule(Algorithm::fixed_window, 1), rule(Algorithm::gcra, 1)},
        {rule(Algorithm::sliding_window, 1, true), rule(Algorithm::leaky_bucket, 2)},
        {rule(Algorithm::concurrency, 1)},
        {rule(Algorithm::concurrency, 2), rule(Algorithm::sliding_log, 1)},
        {blocking(rule(Algorithm::gcra, 1))},
        {blocking(rule(Algorithm::concurrency, 1)), rule(Algorithm::sliding_window, 1, true),
         blocking(rule(Algorithm::fixed_window, 2))},
    };
    std::vector<Question> all;
    for (const std::vector<Asked> &rules : of_all) {
        Question &question = all.emplace_back();
        question.rules = rules;
        question.shape = redis_client::shape_of(rules);
        for (const Asked &asked : rules) {
            question.arguments.push_back(redis_client::check_arguments(asked.quota, false));
        }
        for (size_t i = 0; i < rules.size(); ++i) {
            question.rules[i].arguments = &question.arguments[i];
        }
    }
    return all;
}

struct KnownScript {
    redis_client::Script script;
    const Question *question;
    bool is_run;
};

std::vector<KnownScript> make_scripts() {
    std::vector<KnownScript> scripts;
    for (const Question &question : questions()) {
        scripts.push_back({check_script(question.shape), &question, false});
        if (!question.shape.holds_permits()) {
            scripts.push_back({batch_script(question.shape), &question, true});
        }
    }
    return scripts;
}

/// Null: a background command's.
const KnownScript *script_of(const WireCommand &command) {
    static const std::vector<KnownScript> scripts = make_scripts();
    const auto is_of_command = [&](const KnownScript &known) {
        return command[1] == (command[0] == "EVAL" ? known.script.source : known.script.sha1);
    };
    const auto found = std::ranges::find_if(scripts, is_of_command);
    return found != scripts.end() ? &*found : nullptr;
}

/// How many refunds a command has; 0: it has none.
size_t refunds_in(const WireCommand &command) {
    static const std::map<std::string, size_t> keys_of_one = [] {
        std::map<std::string, size_t> all;
        for (const Algorithm algorithm : rate_limit::all_algorithms) {
            const auto script = settlement_script(algorithm, redis_client::SettlementKind::refund);
            const size_t keys = rate_limit::traits_of(algorithm).family.keeps_past ? 2 : 1;
            all.insert({{script.source, keys}, {script.sha1, keys}});
        }
        return all;
    }();
    const auto found = keys_of_one.find(command[1]);
    return found == keys_of_one.end() ? 0 : std::stoul(command[2]) / found->second;
}

/// That so many units are left, or that none are.
std::vector<int64_t> numbers_of(const Quota &quota, bool grants, uint64_t left) {
    const auto units = static_cast<int64_t>(left);
    const int64_t taken = static_cast<int64_t>(limit) - units;
    switch (quota.algorithm) {
    case Algorithm::fixed_window:
        return {grants ? units : -1, 1000};
    case Algorithm::sliding_log:
        return {grants ? units : -1, 500, 1000, grants ? 0 : 500};
    case Algorithm::sliding_window:
        return {grants ? 0 : -1, grants ? taken : static_cast<int64_t>(limit), 1000};
    case Algorithm::concurrency:
        return {grants ? units : -1};
    case Algorithm::token_bucket:
    case Algorithm::gcra:
    case Algorithm::leaky_bucket:
        break;
    }
    return {grants ? taken * interval : -1 - static_cast<int64_t>(limit) * interval, 0, 0};
}

bool blocks(const Asked &rule) {
    return rule.block.count() > 0;
}

/// One check's part of an answer, and its keys. Where a rule blocks it is the block that denies.
std::string answer_of(const Question &question, std::span<const std::string> keys,
                      const std::optional<size_t> &denying) {
    std::vector<int64_t> numbers = {redis_client::time_of_redis};
    for (size_t i = 0; i < question.rules.size(); ++i) {
        const Asked &rule = question.rules[i];
        const auto reply =
            numbers_of(rule.quota, i != denying || blocks(rule), number_in(keys.front()));
        numbers.insert(numbers.end(), reply.begin(), reply.end());
        keys = keys.subspan(1);
        if (blocks(rule)) {
            numbers.push_back(i == denying ? 1'000'000 : 0);
            keys = keys.subspan(1);
        }
    }
    return redis_client::packed(numbers);
}

std::string answer_of(const KnownScript &known, std::span<const std::string> keys, Input &input) {
    enum : uint64_t { denies, fails, grants = 7 };
    const size_t rules = known.question->rules.size();
    std::string answers;
    std::string failure;
    const size_t keys_of_check = keys_of(*known.question);
    for (; !keys.empty(); keys = keys.subspan(keys_of_check)) {
        const uint64_t fate = input.number(0, grants);
        const auto denying =
            fate == denies ? std::optional(input.number(0, rules - 1)) : std::nullopt;
        std::string answer = answer_of(*known.question, keys.first(keys_of_check), denying);
        if (fate == fails && known.is_run) {
            answer.assign(answer.size(), '\xff');
            failure = "WRONGTYPE Operation against a key holding the wrong kind of value";
        }
        answers += answer;
    }
    return redis_client::bulk_string(answers + failure);
}

} // namespace

const std::vector<Question> &questions() {
    static const std::vector<Question> all = make_questions();
    return all;
}

bool is_check(const WireCommand &command) {
    return command[0].starts_with("EVAL") && script_of(command) != nullptr;
}

size_t keys_of(const Question &question) {
    return question.rules.size() +
           static_cast<size_t>(std::ranges::count_if(question.rules, blocks));
}

std::string key_of(const Quota &quota, uint64_t number) {
    return "rl:{z:" + std::to_string(number) + "}:" + std::string(to_string(quota.algorithm));
}

uint64_t number_in(std::string_view redis_key) {
    uint64_t number = 0;
    const std::string_view digits = redis_key.substr(redis_key.find(':', 3) + 1);
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return number;
}

void HonestRedis::connected() {
    commands_.clear();
    answered_.clear();
}

void HonestRedis::take(std::string_view bytes) {
    for (WireCommand &command : redis_client::parse_commands(bytes)) {
        if (command[0] == "EVAL" && script_of(command) != nullptr) {
            keys_in_full_ += std::stoul(command[2]);
        }
        commands_.push_back(std::move(command));
    }
}

WireCommand HonestRedis::take_next() {
    WireCommand command = std::move(commands_.front());
    commands_.pop_front();
    answered_ = command[0];
    return command;
}

std::string HonestRedis::answer(Input &input) {
    if (commands_.empty()) {
        return {};
    }
    const WireCommand command = take_next();
    if (command[0] == "ROLE") {
        return "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
    }
    if (!command[0].starts_with("EVAL")) { // it logs in
        return "+OK\r\n";
    }
    const KnownScript *known = script_of(command);
    if (const size_t refunds = refunds_in(command); refunds > 0) {
        return redis_client::bulk_string(std::string(refunds, '1'));
    }
    if (known == nullptr) {
        return "$-1\r\n";
    }
    return answer_of(*known, std::span(command).subspan(3, std::stoul(command[2])), input);
}

std::string HonestRedis::answer_with(std::string_view reply) {
    if (commands_.empty()) {
        return {};
    }
    take_next();
    return std::string(reply);
}

} // namespace fuzz
