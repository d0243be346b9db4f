#include "redis.hpp"

#include "redis_client/control/peek.hpp"
#include "redis_client/script/answer.hpp"
#include "redis_client/script/arguments.hpp"
#include "redis_client/script/commands.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

namespace model {

using redis_client::ByteQueue;
using redis_client::Charge;
using redis_client::Sending;

Clock::Clock() : file_(open(std::getenv("RATE_LIMIT_CLOCK"), O_WRONLY)) {
    set(1'700'000'000'000'000);
}

Clock::~Clock() {
    close(file_);
}

void Clock::set(int64_t now) {
    now_ = now;
    ASSERT_EQ(pwrite(file_, &now, sizeof(now), 0), 8);
}

namespace {

const redis_client::WireWords *shared(const redis_client::WireWords &arguments) {
    static std::map<std::string, redis_client::WireWords> all;
    return &all.try_emplace(std::string(arguments.bytes()), arguments).first->second;
}

bool is_good(std::string_view answer, std::span<Charge> charges) {
    return redis_client::read_answer(answer, charges) == redis_client::AnswerState::good;
}

} // namespace

Charge charge_of(const rate_limit::Quota &quota, bool aligned, std::string_view key,
                 redis_client::Permit *permit) {
    Charge charge;
    charge.quota = quota;
    charge.redis_key = key;
    charge.arguments = shared(redis_client::check_arguments(quota, aligned));
    charge.permit = permit;
    return charge;
}

Charge leasing_charge_of(const rate_limit::Quota &quota, bool aligned, std::string_view key,
                         std::chrono::microseconds longest_lease, uint64_t wanted) {
    Charge charge = charge_of(quota, aligned, key);
    charge.arguments = shared(redis_client::leasing_arguments(quota, aligned, longest_lease));
    charge.may_lease = true;
    charge.wanted = wanted;
    return charge;
}

Redis::Redis()
    : context_(redisConnect("127.0.0.1", std::atoi(std::getenv("RATE_LIMIT_REDIS_PORT")))) {
    command({"FLUSHALL"});
}

Redis::~Redis() {
    redisFree(context_);
}

Redis::Answer Redis::command(std::initializer_list<std::string_view> words) {
    send(words);
    return receive();
}

Redis::Answer Redis::command(std::span<const std::string> words) {
    size_t bytes = 0;
    for (const std::string &word : words) {
        bytes += word.size();
    }
    ByteQueue queue;
    redis_client::CommandWriter writer(queue, words.size(), bytes);
    for (const std::string &word : words) {
        writer.word(word);
    }
    send(queue);
    return receive();
}

void Redis::ask(const ByteQueue &command,
                const std::function<void(redis_client::ReplyView)> &read) {
    send(command);
    redisReply *reply = receive_reply();
    read(redis_client::ReplyView(*reply));
    freeReplyObject(reply);
}

std::string Redis::check(std::span<Charge> charges) {
    send_check(charges);
    return receive_check(charges);
}

std::vector<std::string> Redis::check_run(std::span<std::vector<Charge>> checks) {
    std::vector<redis_client::Command> calls(checks.size());
    for (size_t i = 0; i < calls.size(); ++i) {
        calls[i].charges = checks[i];
        calls[i].next_in_batch = i + 1 < calls.size() ? &calls[i + 1] : nullptr;
    }
    const redis_client::ScriptShape shape = redis_client::shape_of(checks.front());
    scripts_.add(shape);
    send(*scripts_.batch(shape), calls.front());
    const Answer answer = receive();
    const size_t size = redis_client::answer_size(checks.front());
    if (answer.is_error() || answer.text.size() < size * checks.size()) {
        return std::vector<std::string>(checks.size(), "no answers: " + answer.text);
    }
    const std::string failure = answer.text.substr(size * checks.size());
    std::vector<std::string> errors;
    for (size_t i = 0; i < checks.size(); ++i) {
        const std::string_view part = std::string_view(answer.text).substr(i * size, size);
        if (redis_client::is_failure(part)) {
            errors.push_back("failed: " + failure);
        } else {
            errors.emplace_back(is_good(part, checks[i]) ? "" : "no answer to these");
        }
    }
    return errors;
}

Redis::Seen Redis::check_and_look(std::span<Charge> charges, Looking looking) {
    for (const Charge &charge : charges) {
        look(charge.redis_key, looking);
    }
    send_check(charges);
    for (const Charge &charge : charges) {
        look(charge.redis_key, looking);
    }
    Seen seen_there;
    for (size_t i = 0; i < charges.size(); ++i) {
        seen_there.before.push_back(seen(looking));
    }
    seen_there.error = receive_check(charges);
    for (size_t i = 0; i < charges.size(); ++i) {
        seen_there.after.push_back(seen(looking));
    }
    return seen_there;
}

std::optional<rate_limit::Verdict> Redis::peek(const rate_limit::Quota &quota, bool aligned,
                                               std::string_view key, redis_client::Blocks blocks) {
    ByteQueue queue;
    redis_client::write_peek(queue, quota, aligned, key, blocks, host_clock());
    send(queue);
    const Answer answer = receive();
    return answer.is_error() ? std::nullopt
                             : redis_client::read_peek_answer(answer.text, quota, blocks);
}

std::string Redis::refund(const Charge &charge) {
    redis_client::Settlement refund;
    refund.kind = redis_client::SettlementKind::refund;
    refund.algorithm = charge.quota.algorithm;
    refund.is_on_one_key = !keeps_past_;
    refund.redis_key = charge.redis_key;
    refund.arguments = redis_client::refund_arguments(charge.quota, charge.to_return());
    redis_client::SettlementList list;
    list.push_back(refund);
    const redis_client::Script &script =
        scripts_.settlement(charge.quota.algorithm, redis_client::SettlementKind::refund);
    ByteQueue queue;
    redis_client::write_settlements(queue, script, Sending::in_full, list, host_clock);
    send(queue);
    const Answer answer = receive();
    return answer.text == std::string_view("1") ? "" : answer.text;
}

std::string Redis::settle(redis_client::SettlementKind kind,
                          std::span<const Settlement> settlements, bool aligned) {
    std::vector<redis_client::Settlement> all(settlements.size());
    redis_client::SettlementList list;
    for (size_t i = 0; i < all.size(); ++i) {
        rate_limit::Quota quota = settlements[i].charge->quota;
        quota.cost = settlements[i].units;
        quota.reserves_nothing = false;
        all[i].kind = kind;
        all[i].algorithm = quota.algorithm;
        all[i].is_on_one_key = !keeps_past_;
        all[i].calendar = quota.calendar;
        all[i].redis_key = settlements[i].charge->redis_key;
        all[i].arguments =
            kind == redis_client::SettlementKind::debt
                ? redis_client::debt_arguments(quota, aligned)
                : redis_client::refund_arguments(quota, settlements[i].charge->to_return());
        list.push_back(all[i]);
    }
    ByteQueue queue;
    redis_client::write_settlements(
        queue, scripts_.settlement(settlements.front().charge->quota.algorithm, kind),
        Sending::in_full, list, host_clock);
    send(queue);
    return receive().text;
}

std::string Redis::release(const redis_client::Permit &permit) {
    ByteQueue queue;
    redis_client::write_release(queue, scripts_.release(), Sending::in_full, permit);
    send(queue);
    return receive().text;
}

std::string Redis::renew(std::span<redis_client::Permit *const> permits) {
    ByteQueue queue;
    redis_client::write_renewal(queue, scripts_.renew(), permits);
    send(queue);
    return receive().text;
}

State Redis::state(std::string_view key) {
    look(key, Looking::at_all);
    return seen(Looking::at_all);
}

void Redis::send(std::initializer_list<std::string_view> words) {
    ByteQueue queue;
    redis_client::write_command(queue, words);
    send(queue);
}

void Redis::send(const ByteQueue &queue) {
    redisAppendFormattedCommand(context_, queue.bytes().data(), queue.bytes().size());
}

void Redis::send_check(std::span<Charge> charges) {
    redis_client::Command check;
    check.charges = charges;
    const redis_client::ScriptShape shape = redis_client::shape_of(charges);
    if (has_own_scripts_) {
        scripts_.add(shape);
    }
    send(scripts_.check(shape), check);
}

void Redis::send(const redis_client::Script &script, const redis_client::Command &first) {
    const bool is_known = !known_.insert(script.sha1).second;
    ByteQueue queue;
    redis_client::write_checks(queue, script, is_known ? Sending::by_name : Sending::in_full, first,
                               host_clock);
    send(queue);
}

redisReply *Redis::receive_reply() {
    void *received = nullptr;
    if (redisGetReply(context_, &received) != REDIS_OK) {
        ADD_FAILURE() << "Redis is gone: " << context_->errstr;
        std::abort();
    }
    return static_cast<redisReply *>(received);
}

Redis::Answer Redis::receive() {
    redisReply *reply = receive_reply();
    Answer answer{.type = reply->type, .text = {}, .number = reply->integer};
    if (reply->str != nullptr) {
        answer.text.assign(reply->str, reply->len);
    }
    freeReplyObject(reply);
    return answer;
}

std::string Redis::receive_check(std::span<Charge> charges) {
    const Answer answer = receive();
    if (answer.is_error()) {
        return answer.text;
    }
    if (answer.text.size() != redis_client::answer_size(charges) ||
        !is_good(answer.text, charges)) {
        return "no answer to these charges";
    }
    return {};
}

void Redis::look(std::string_view key, Looking looking) {
    if (looking == Looking::at_all) {
        send({"DUMP", key});
    }
    send({"PTTL", key});
}

State Redis::seen(Looking looking) {
    State state;
    if (looking == Looking::at_all) {
        state.dump = receive().text;
    }
    state.time_to_live_ms = receive().number;
    return state;
}

} // namespace model
