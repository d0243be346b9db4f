// A session, and the hand that plays Redis, the network, the clock and those who ask.
#pragma once

#include "redis_client/script/arguments.hpp"
#include "redis_client/session/session.hpp"
#include "unit/redis_client/different_bytes.hpp"
#include "unit/redis_client/wire.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace redis_client {

using namespace std::chrono_literals;
using rate_limit::Algorithm;
using rate_limit::Decision;
using rate_limit::Quota;
using rate_limit::Verdict;

using Lost = Session::Lost;
using Progress = Session::Progress;

/// What a check says of its first charge, or why it says nothing.
using Result = std::variant<Verdict, Failure>;
using Results = std::vector<Result>;

/// What one rule asks.
struct Asked {
    Quota quota;
    std::string redis_key;
    bool dry_run = false;
    const WireWords *arguments = nullptr; // that others have, too; else of its own
    std::chrono::milliseconds block{0};
};

/// Who asks. What was asked stays where it is, whatever else is asked.
struct Listener final : CheckCallbacks {
    void on_answer(std::optional<Failure> failure) override {
        results.push_back(failure ? Result(*failure) : Result(charges().front().verdict));
        if (react) {
            react();
        }
    }

    std::string_view describe(std::span<char> out) const override {
        const std::string_view key = all_charges.back().front().redis_key;
        return {out.data(), key.copy(out.data(), out.size())};
    }

    std::vector<Charge> &new_charges(const std::vector<Asked> &asked) {
        std::vector<Charge> &charges = all_charges.emplace_back(asked.size());
        for (size_t i = 0; i < asked.size(); ++i) {
            charges[i].quota = asked[i].quota;
            charges[i].dry_run = asked[i].dry_run;
            charges[i].block = asked[i].block;
            charges[i].redis_key = keys.emplace_back(asked[i].redis_key);
            charges[i].arguments = asked[i].arguments;
            if (charges[i].arguments == nullptr) {
                charges[i].arguments =
                    &arguments.emplace_back(check_arguments(asked[i].quota, false));
            }
        }
        return charges;
    }
    std::vector<Charge> &charges() { return all_charges.back(); } // what was asked last

    Results results;
    std::function<void()> react; // what it does when it has an answer
    std::deque<std::vector<Charge>> all_charges;
    std::deque<std::string> keys;
    std::deque<WireWords> arguments;
};

inline ScriptShape shape_of(const std::vector<Asked> &asked) {
    ScriptShape shape;
    for (const Asked &one : asked) {
        shape.add({.algorithm = one.quota.algorithm,
                   .dry_run = one.dry_run,
                   .blocks = one.block.count() > 0});
    }
    return shape;
}

inline ScriptShape shape_of(Algorithm algorithm) {
    ScriptShape shape;
    shape.add({.algorithm = algorithm, .dry_run = false});
    return shape;
}

inline Quota quota_of(Algorithm algorithm, uint64_t cost = 1) {
    return {.algorithm = algorithm, .window = 60s, .limit = 100, .cost = cost};
}

/// What most tests ask: a sliding log, 100 in 60 seconds.
inline Asked asked(const std::string &key) {
    return {.quota = quota_of(Algorithm::sliding_log),
            .redis_key = "rl:{z:" + key + "}:sliding_log:60000"};
}

inline const Script &script() {
    static const Script of_log = check_script(shape_of(Algorithm::sliding_log));
    return of_log;
}

/// For many checks.
inline const Script &script_of_runs() {
    static const Script of_log = batch_script(shape_of(Algorithm::sliding_log));
    return of_log;
}

inline WireCommand evalsha(const std::string &key) {
    return {"EVALSHA", script().sha1, "1",        "rl:{z:" + key + "}:sliding_log:60000",
            "100",     "1",           "60000000", "72501"};
}

inline WireCommand eval(const std::string &key) {
    WireCommand command = evalsha(key);
    command[0] = "EVAL";
    command[1] = script().source;
    return command;
}

inline constexpr int64_t time_of_redis = 1'700'000'000'000'000;

/// A script's reply of these numbers, after its time.
inline std::string answer(std::vector<int64_t> numbers) {
    numbers.insert(numbers.begin(), time_of_redis);
    return bulk_string(packed(numbers));
}

/// What is left tells one verdict from another.
inline Result granted(uint64_t remaining) {
    return Verdict{.remaining = remaining};
}

inline std::string grant(int64_t remaining) {
    return answer({remaining, 0, 0, 0});
}

/// To the SCRIPT LOAD of a check and of its runs.
inline constexpr std::string_view loaded = "+sha1\r\n+sha1\r\n";

inline constexpr std::string_view noscript = "-NOSCRIPT No matching script. Please use EVAL.\r\n";

/// Of the tests' other checks.
inline std::vector<ScriptShape> rare_shapes() {
    std::vector<ScriptShape> shapes;
    for (const Algorithm algorithm : rate_limit::all_algorithms) {
        shapes.push_back(shape_of(algorithm));
    }
    for (const bool dry_run : {false, true}) {
        ScriptShape &both = shapes.emplace_back(shape_of(Algorithm::sliding_log));
        both.add({.algorithm = Algorithm::fixed_window, .dry_run = dry_run});
    }
    for (const Algorithm algorithm : {Algorithm::sliding_log, Algorithm::concurrency}) {
        ScriptShape &both = shapes.emplace_back(shape_of(Algorithm::concurrency));
        both.add({.algorithm = algorithm, .dry_run = false});
    }
    return shapes;
}

inline SessionSettings default_settings() {
    SessionSettings settings;
    settings.shapes = {shape_of(Algorithm::sliding_log)};
    settings.rare_shapes = rare_shapes();
    settings.breaker.failures = 0; // off
    return settings;
}

inline SessionSettings with_timeout(std::chrono::milliseconds timeout) {
    SessionSettings settings = default_settings();
    settings.timeout = timeout;
    return settings;
}

inline SessionSettings with_max_pending(size_t max_pending) {
    SessionSettings settings = default_settings();
    settings.max_pending = max_pending;
    return settings;
}

class SessionTest : public testing::Test {
  protected:
    void TearDown() override {
        EXPECT_EQ(session_->pending(), 0u);
        EXPECT_FALSE(session_->has_background_commands());
        EXPECT_EQ(session_->next_expiry(), std::nullopt); // no permit is held either
    }

    void start(const SessionSettings &settings) {
        session_.reset();
        group_.emplace(settings, different_bytes, any_time);
        session_.emplace(*group_, 1);
        wire_.clear();
    }

    /// A connection without AUTH and SELECT, up to ready.
    void log_in() {
        session_->connected();
        wire_.clear();
        const size_t scripts = sent().size();
        for (size_t i = 1; i < scripts; ++i) {
            EXPECT_EQ(receive("+sha1\r\n"), Progress::more);
        }
        EXPECT_EQ(receive("+sha1\r\n"), Progress::ready);
        session_->flush(now_);
    }

    Command *ask_in_turn(Listener &listener, const std::vector<Asked> &all) {
        const auto answer = session_->ask(listener.new_charges(all), listener, now_);
        Command *const *check = std::get_if<Command *>(&answer);
        return check != nullptr ? *check : nullptr;
    }

    /// In a turn of its own. What was refused memory is gone by then.
    Command *ask(Listener &listener, const std::vector<Asked> &all) {
        Command *check = ask_in_turn(listener, all);
        session_->flush(now_);
        return check;
    }

    Command *ask(Listener &listener, const std::string &key) {
        return ask(listener, std::vector{asked(key)});
    }

    /// What ask() answers at once, where it does.
    std::optional<Failure> refusal() {
        const auto answer = session_->ask(nobody_.new_charges({asked("refused")}), nobody_, now_);
        const Failure *failure = std::get_if<Failure>(&answer);
        return failure != nullptr ? std::optional(*failure) : std::nullopt;
    }

    /// What the transport does at the end of a turn.
    void flush() {
        session_->flush(now_);
        wire_ += session_->output().bytes();
        session_->output().consume(session_->output().bytes().size());
    }

    /// The commands since the last call.
    Commands sent() {
        flush();
        return parse_commands(std::exchange(wire_, {}));
    }

    /// Redis answers what it has seen.
    Progress receive(std::string_view bytes) {
        flush();
        return session_->received(bytes, now_);
    }

    std::string wire_; // what the transport took, for Redis to read
    std::optional<SessionGroup> group_{std::in_place, default_settings(), different_bytes,
                                       any_time};
    std::optional<Session> session_{std::in_place, *group_, 1};
    Time now_{1000};
    Listener a_, b_, c_;

  private:
    Listener nobody_;
};

} // namespace redis_client
