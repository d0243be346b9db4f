// Each algorithm beside a model of it: the same checks at the same times, in random order, to the
// real script in a real Redis whose clock this test moves. Every number of every verdict is equal.
//
// The models follow the SPEC's definitions, in whole numbers of 128 bits, and share no formula with
// the scripts: a bucket is one of tokens, and when a sliding window has room is found by trying.
//
// Environment: RATE_LIMIT_REDIS_PORT, RATE_LIMIT_CLOCK (see t/lib/clock.c), RATE_LIMIT_SEED.

#include "redis_client/check.hpp"
#include "redis_client/resp.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <hiredis/hiredis.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using rate_limit::Algorithm;
using rate_limit::Decision;
using rate_limit::Rule;
using rate_limit::Verdict;
using redis_client::PreparedRule;
using std::chrono::microseconds;

__extension__ using Wide = __int128;

/// What a model says without regard to times that do not apply.
Verdict verdict(bool granted, Wide remaining, Wide capacity, Wide retry_after, Wide next,
                Wide reset) {
    const auto time = [](Wide value) { return microseconds(static_cast<int64_t>(value)); };
    return {.decision = granted ? Decision::granted : Decision::denied,
            .remaining = static_cast<uint64_t>(std::max<Wide>(remaining, 0)),
            .retry_after = time(granted ? 0 : retry_after),
            .next_unit = time(remaining < capacity ? next : 0),
            .reset = time(reset)};
}

class Model {
  public:
    explicit Model(const Rule &rule)
        : limit_(static_cast<Wide>(rule.limit)),
          window_(microseconds(rule.window).count()),
          capacity_(static_cast<Wide>(rule.capacity())),
          aligned_(rule.aligned) {}
    virtual ~Model() = default;
    virtual Verdict check(Wide now) = 0;

  protected:
    Wide limit_, window_, capacity_;
    bool aligned_;
};

class FixedWindow final : public Model {
  public:
    using Model::Model;
    Verdict check(Wide now) override {
        if (taken_ == 0 || now >= start_ + window_) {
            start_ = aligned_ ? now / window_ * window_ : now;
            taken_ = 0;
        }
        const bool granted = taken_ < limit_;
        taken_ += granted ? 1 : 0;
        const Wide left = start_ + window_ - now;
        return verdict(granted, limit_ - taken_, limit_, left, left, left);
    }

  private:
    Wide start_ = 0, taken_ = 0;
};

class SlidingWindow final : public Model {
  public:
    using Model::Model;
    Verdict check(Wide now) override {
        now_ = now;
        const bool granted = fits_at(now, 1);
        if (granted) {
            // a clock before the newest window counts into that
            const Wide index = std::max(now / window_, taken_.empty() ? 0 : taken_.rbegin()->first);
            ++taken_[index];
        }
        Wide remaining = 0;
        while (remaining < limit_ && fits_at(now, remaining + 1)) {
            ++remaining;
        }
        return verdict(granted, remaining, limit_, wait_for(1), wait_for(remaining + 1),
                       wait_for(limit_));
    }

  private:
    bool fits_at(Wide time, Wide units) const {
        const Wide newest = taken_.empty() ? 0 : taken_.rbegin()->first * window_;
        time = std::max(time, newest); // time stands still before that
        const Wide elapsed = time % window_;
        return of(time / window_ - 1) * (window_ - elapsed) +
                   (of(time / window_) + units) * window_ <=
               limit_ * window_;
    }

    Wide of(Wide index) const {
        const auto found = taken_.find(index);
        return found == taken_.end() ? 0 : found->second;
    }

    /// The least time from now after which so many units fit: it only gets easier.
    Wide wait_for(Wide units) const {
        Wide too_short = -1;
        Wide enough = 3 * window_ + std::max<Wide>(0, newest_start() - now_);
        while (enough - too_short > 1) {
            const Wide middle = (too_short + enough) / 2;
            (middle >= 0 && fits_at(now_ + middle, units) ? enough : too_short) = middle;
        }
        return enough;
    }

    Wide newest_start() const { return taken_.empty() ? 0 : taken_.rbegin()->first * window_; }

    std::map<Wide, Wide> taken_;
    Wide now_ = 0;
};

/// Tokens are counted in window-ths, of which `limit` come in each microsecond.
class Bucket final : public Model {
  public:
    using Model::Model;
    Verdict check(Wide now) override {
        const Wide full = capacity_ * window_;
        Wide tokens = used_ ? std::min(full, tokens_ + (now - last_) * limit_) : full;
        const bool granted = tokens >= window_;
        if (granted) {
            tokens -= window_;
            used_ = true;
            tokens_ = tokens;
            last_ = now;
        }
        const auto wait_for = [&](Wide missing_to) {
            return std::max<Wide>(0, (missing_to - tokens + limit_ - 1) / limit_);
        };
        const Wide remaining = tokens < 0 ? 0 : tokens / window_;
        return verdict(granted, remaining, capacity_, wait_for(window_),
                       wait_for((remaining + 1) * window_), wait_for(full));
    }

  private:
    bool used_ = false;
    Wide tokens_ = 0, last_ = 0;
};

std::unique_ptr<Model> model_of(const Rule &rule) {
    switch (rule.algorithm) {
    case Algorithm::fixed_window:
        return std::make_unique<FixedWindow>(rule);
    case Algorithm::sliding_window:
        return std::make_unique<SlidingWindow>(rule);
    default:
        return std::make_unique<Bucket>(rule);
    }
}

class Clock {
  public:
    Clock() : file_(open(std::getenv("RATE_LIMIT_CLOCK"), O_WRONLY)) {}
    ~Clock() { close(file_); }
    void set(int64_t now) const { ASSERT_EQ(pwrite(file_, &now, sizeof(now), 0), 8); }

  private:
    int file_;
};

class Redis {
  public:
    Redis() : context_(redisConnect("127.0.0.1", std::atoi(std::getenv("RATE_LIMIT_REDIS_PORT")))) {
        freeReplyObject(redisCommand(context_, "FLUSHALL"));
    }
    ~Redis() { redisFree(context_); }

    std::vector<int64_t> check(const PreparedRule &rule, const std::string &key) {
        redis_client::ByteQueue command;
        redis_client::write_command(command, {"EVAL", rule.script->source, "1", key},
                                    rule.arguments);
        redisAppendFormattedCommand(context_, command.bytes().data(), command.bytes().size());
        void *answer = nullptr;
        EXPECT_EQ(redisGetReply(context_, &answer), REDIS_OK);
        auto *reply = static_cast<redisReply *>(answer);
        EXPECT_EQ(reply->type, REDIS_REPLY_ARRAY) << (reply->str != nullptr ? reply->str : "");
        std::vector<int64_t> numbers;
        for (size_t i = 0; i < reply->elements; ++i) {
            numbers.push_back(reply->element[i]->integer);
        }
        freeReplyObject(reply);
        return numbers;
    }

    void set(const std::string &key, const std::string &value) {
        freeReplyObject(redisCommand(context_, "SET %s %s", key.c_str(), value.c_str()));
    }

    int64_t time_to_live_ms(const std::string &key) {
        auto *reply = static_cast<redisReply *>(redisCommand(context_, "PTTL %s", key.c_str()));
        const int64_t time = reply->integer;
        freeReplyObject(reply);
        return time;
    }

  private:
    redisContext *context_;
};

class AlgorithmTest : public testing::TestWithParam<Algorithm> {
  protected:
    AlgorithmTest() : random_(static_cast<uint64_t>(std::atoll(std::getenv("RATE_LIMIT_SEED")))) {}

    int64_t between(int64_t least, int64_t most) {
        return std::uniform_int_distribution<int64_t>(least, most)(random_);
    }

    int64_t one_of(std::initializer_list<int64_t> choices) {
        return *(choices.begin() + between(0, static_cast<int64_t>(choices.size()) - 1));
    }

    Rule random_rule() {
        Rule rule;
        rule.zone = "z";
        rule.algorithm = GetParam();
        rule.limit = static_cast<uint64_t>(one_of({1, 2, 3, 7, 10, 100, between(1, 300)}));
        rule.window = std::chrono::milliseconds(
            one_of({1, 10, 1000, 60'000, 3'600'000, 366LL * 86'400'000, between(1, 100'000)}));
        if (rate_limit::is_bucket(rule.algorithm) && between(0, 1) == 1) {
            rule.burst = static_cast<uint64_t>(one_of({1, 2, 5, 30}));
        }
        rule.aligned = rule.algorithm == Algorithm::fixed_window && between(0, 1) == 1;
        if (rule.refill() > rate_limit::longest_refill) {
            rule.burst = 1;
        }
        return rule;
    }

    /// Mostly forward by parts of an interval or to where the last verdict pointed, at times back.
    int64_t random_step(const Rule &rule, const Verdict &last) {
        const int64_t window = microseconds(rule.window).count();
        const auto interval = std::max<int64_t>(1, window / static_cast<int64_t>(rule.limit));
        switch (between(0, 9)) {
        case 0:
            return last.retry_after.count();
        case 1:
            return std::max<int64_t>(0, last.next_unit.count() - between(0, 1));
        case 2:
            return between(0, 20) == 0 ? last.reset.count() : 1;
        case 3:
            return between(0, 30) == 0 ? -between(0, window) : between(0, 3);
        case 4:
            return between(0, 50) == 0 ? between(0, 3 * window) : 0;
        default:
            return between(0, interval);
        }
    }

    std::mt19937_64 random_;
};

TEST_P(AlgorithmTest, DecidesAsItsModelDoes) {
    constexpr int rules = 50;
    constexpr int steps = 500;
    Redis redis;
    Clock clock;
    for (int i = 0; i < rules; ++i) {
        const PreparedRule prepared(random_rule(), "rl:");
        const Rule &rule = prepared.rule;
        SCOPED_TRACE("limit=" + std::to_string(rule.limit) +
                     " window=" + std::to_string(rule.window.count()) +
                     "ms burst=" + (rule.burst ? std::to_string(*rule.burst) : "none") +
                     (rule.aligned ? " aligned" : ""));
        const std::string key = "k" + std::to_string(i);
        const auto model = model_of(rule);
        Verdict last;
        int64_t now = 1'700'000'000'000'000 + between(0, 1'000'000'000'000);
        // Lua's numbers end at 2^53, in the year 2255.
        for (int step = 0; step < steps && now < 8'000'000'000'000'000; ++step) {
            now += random_step(rule, last);
            clock.set(now);
            const Verdict expected = model->check(now);
            const auto reply = redis.check(prepared, key);
            const auto got = rate_limit::verdict_of_reply(rule, reply);
            ASSERT_TRUE(got.has_value());
            ASSERT_EQ(got->decision == Decision::granted, expected.decision == Decision::granted)
                << "step " << step;
            ASSERT_EQ(got->remaining, expected.remaining) << "step " << step;
            ASSERT_EQ(got->retry_after.count(), expected.retry_after.count()) << "step " << step;
            ASSERT_EQ(got->next_unit.count(), expected.next_unit.count()) << "step " << step;
            ASSERT_EQ(got->reset.count(), expected.reset.count()) << "step " << step;
            // all is back after `reset`, and the key stays 5 s longer
            ASSERT_GE(redis.time_to_live_ms(key), got->reset.count() / 1000 + 5000)
                << "step " << step;
            last = *got;
        }
    }
}

class SlidingWindowTest : public AlgorithmTest {};

// What Lua's numbers round: previous * overlap beside free * window, both far above 2^53.
TEST_P(SlidingWindowTest, IsExactToTheMicrosecondWithTheLargestNumbers) {
    Redis redis;
    Clock clock;
    const int64_t window = microseconds(rate_limit::longest_window).count();
    const int64_t start = 60 * window;
    int decided[2] = {0, 0};
    for (int i = 0; i < 3000; ++i) {
        Rule rule;
        rule.zone = "z";
        rule.algorithm = GetParam();
        rule.limit = static_cast<uint64_t>(between(900'000'000, 1'000'000'000));
        rule.window = rate_limit::longest_window;
        const int64_t previous = between(500'000'000, static_cast<int64_t>(rule.limit));
        const int64_t current = between(static_cast<int64_t>(rule.limit) / 2, 899'999'000);
        const Wide room =
            static_cast<Wide>(static_cast<int64_t>(rule.limit) - current - 1) * window;
        const auto edge = static_cast<int64_t>(room / previous); // the longest overlap that fits
        const int64_t overlap = std::clamp<int64_t>(edge + between(-1, 1), 1, window);
        clock.set(start + window - overlap);
        redis.set("k",
                  std::to_string(start) + std::to_string(current) + " " + std::to_string(previous));
        const bool granted = redis.check(PreparedRule(rule, "rl:"), "k")[0] == 1;
        ASSERT_EQ(granted, static_cast<Wide>(previous) * overlap <= room) << "round " << i;
        ++decided[granted ? 1 : 0];
    }
    EXPECT_GT(decided[0], 500);
    EXPECT_GT(decided[1], 500);
}

INSTANTIATE_TEST_SUITE_P(Alone, SlidingWindowTest, testing::Values(Algorithm::sliding_window));

INSTANTIATE_TEST_SUITE_P(Each, AlgorithmTest,
                         testing::Values(Algorithm::fixed_window, Algorithm::sliding_window,
                                         Algorithm::token_bucket, Algorithm::gcra),
                         [](const auto &info) {
                             return std::string(rate_limit::to_string(info.param));
                         });

} // namespace
