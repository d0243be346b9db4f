// The verdicts of one host, for one counter whose limits change: after any requests at any times,
// after any replies of Redis that are verdicts at all.

#include "rate_limit/algorithms/local.hpp"
#include "rate_limit/algorithms/rule_reply.hpp"
#include "rules.hpp"
#include "targets.hpp"
#include "unit/rate_limit/tables/shared_table_test.hpp"

#include <array>
#include <optional>

namespace fuzz {
namespace {

using rate_limit::Algorithm;
using rate_limit::Decision;
using rate_limit::Quota;
using rate_limit::Record;
using rate_limit::Verdict;
using std::chrono::microseconds;

constexpr microseconds none{0};
constexpr microseconds end_of_time{int64_t{1} << 60}; // so that no test goes beyond 64 bits

class Host {
  public:
    explicit Host(Input &input)
        : input_(input),
          quota_(take_quota(input, input.one_of(rate_limit::all_algorithms))),
          aligned_(input.flag()),
          now_(input.number(0, 1'000'000'000'000)) {}

    void step() {
        static constexpr void (Host::*steps[])() = {&Host::ask,     &Host::pass_time,
                                                    &Host::change,  &Host::record,
                                                    &Host::release, &Host::step_back};
        (this->*input_.one_of(steps))();
    }
    bool has_time() const { return now_ < end_of_time; }

  private:
    rate_limit::Now at(microseconds time) const {
        return {.monotonic = time, .unix_time = time + booted_};
    }
    std::optional<Record> known(microseconds time) { return bucket_.table().find(key, time); }
    void keep(const std::optional<Record> &record) {
        if (record) {
            bucket_.table().store(key, *record);
        }
    }

    Verdict peek(Quota quota, microseconds time) {
        quota.cost = 0;
        return rate_limit::decide_locally(known(time), quota, aligned_, at(time)).verdict;
    }

    void ask() {
        const auto decision = rate_limit::decide_locally(known(now_), quota_, aligned_, at(now_));
        const Verdict &verdict = decision.verdict;
        check(verdict);
        require(decision.after.has_value() ==
                    (verdict.decision == Decision::granted && quota_.cost > 0),
                "what is granted is kept");
        keep(decision.after);
        require(peek(quota_, now_).remaining == verdict.remaining, "what is left is left");
        if (verdict.decision == Decision::denied && quota_.algorithm != Algorithm::concurrency) {
            const microseconds then = now_ + verdict.retry_after;
            require(rate_limit::decide_locally(known(then), quota_, aligned_, at(then))
                            .verdict.decision == Decision::granted,
                    "who waits is granted");
        }
        if (decision.after) {
            taken_at_ = now_;
        }
        last_ = verdict;
    }

    void check(const Verdict &verdict) const {
        require_in_range(quota_, verdict);
        if (quota_.capacity() == 0) {
            return;
        }
        require((verdict.retry_after > none) == (verdict.decision == Decision::denied),
                "who is denied has to wait");
        require((verdict.remaining == quota_.capacity()) == (verdict.reset == none),
                "there is a reset where something is missing");
        require(verdict.next_unit <= verdict.reset && verdict.delay <= verdict.reset,
                "nothing comes after the reset");
    }

    void pass_time() {
        const microseconds window = quota_.window;
        const microseconds times[] = {last_.retry_after,
                                      last_.next_unit,
                                      last_.reset,
                                      window * static_cast<int64_t>(input_.number(0, 24)) / 8,
                                      microseconds(input_.number(0, 255)),
                                      microseconds(input_.number(0, UINT32_MAX))};
        const microseconds time = input_.one_of(times);
        now_ += std::max(time - microseconds(input_.number(0, 1)), none);
    }

    void change() { change_numbers(input_, quota_); }

    /// A process that was overtaken by another one.
    void step_back() { now_ -= std::min(now_, microseconds(input_.number(0, 5000))); }

    /// Records a verdict of a check that Redis was sent some time ago.
    void record() {
        std::array<int64_t, 4> numbers{};
        const auto reply = std::span(numbers).first(reply_length(quota_.algorithm));
        for (int64_t &number : reply) {
            number = take_reply_number(input_, quota_);
        }
        Quota quota = quota_;
        const bool is_charged = rate_limit::is_granted(reply) && input_.flag();
        const auto verdict = rate_limit::verdict_of_reply(quota, reply, is_charged);
        const uint64_t percent = input_.number(1, 100);
        const microseconds asked = now_ - std::min(now_, microseconds(input_.number(0, 200'000)));
        if (!verdict || quota.capacity() == 0) {
            return;
        }
        quota.cost = is_charged ? quota.cost : 0;
        const Quota part = rate_limit::scaled(quota, percent);
        const microseconds longest = 2 * quota.window;
        const microseconds then =
            now_ + microseconds(input_.number(0, static_cast<uint64_t>(longest.count())));
        const uint64_t before = peek(part, then).remaining;
        const bool is_next_window = quota.algorithm == Algorithm::fixed_window &&
                                    peek(part, asked).reset <= microseconds(quota.window) / 8;
        keep(rate_limit::record_verdict(known(asked), quota, *verdict, percent, asked));
        require(is_next_window || peek(part, then).remaining <= before,
                "what was known is still known");
        taken_at_ = asked;
    }

    void release() {
        if (quota_.algorithm == Algorithm::concurrency) {
            const uint64_t before = peek(quota_, now_).remaining;
            keep(rate_limit::release_permits(known(now_), quota_, taken_at_, now_));
            require(peek(quota_, now_).remaining >= before, "what is given back is there");
        }
    }

    static constexpr rate_limit::Hash key{.low = 7, .high = 9};
    static constexpr microseconds booted_{1'700'000'000'000'000};

    Input &input_;
    Quota quota_;
    bool aligned_;
    microseconds now_;
    microseconds taken_at_{0};
    Verdict last_;
    rate_limit::OneBucket bucket_{};
};

} // namespace

void local(Input input) {
    constexpr int most_steps = 200;
    Host host(input);
    for (int i = 0; i < most_steps && !input.empty() && host.has_time(); ++i) {
        host.step();
    }
}

} // namespace fuzz
