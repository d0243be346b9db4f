// A session needs no more memory for more of the same, faults included. What it takes it keeps, so
// that a worker that goes on as before has no use for memory that the system may not have.

#include "session_test.hpp"

#include "unit/allocations.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace redis_client {
namespace {

struct Counter final : CheckCallbacks {
    void on_answer(std::optional<Failure> failure) override { ++(failure ? failures : verdicts); }
    int verdicts = 0;
    int failures = 0;
};

const WireWords log_arguments = check_arguments(quota_of(Algorithm::sliding_log), false);

class SessionMemoryTest : public SessionTest {
  protected:
    SessionMemoryTest() {
        SessionSettings settings = default_settings();
        settings.shapes.push_back(shape_of(Algorithm::concurrency));
        start(settings);
    }

    /// What is asked is made beforehand.
    std::vector<Charge> &charges_of(const Asked &asked) { return listener_.new_charges({asked}); }

    Command *ask_for(std::vector<Charge> &charges) {
        const auto answer = session_->ask(charges, counter_, now_);
        return std::get<Command *>(answer);
    }

    /// The socket takes all, and Redis answers.
    Progress answer_with(std::string_view replies) {
        session_->flush(now_);
        session_->output().consume(session_->output().bytes().size());
        return session_->received(replies, now_);
    }

    /// How many allocations as many rounds make after the first ones, in which buffers grow.
    template <typename Round>
    size_t later_allocations(Round round) {
        const auto all_rounds = [&] {
            for (int i = 0; i < rounds / 2; ++i) {
                round();
            }
        };
        all_rounds();
        return allocations_of(all_rounds).count;
    }

    static constexpr int rounds = 40;
    Counter counter_;

  private:
    Listener listener_;
};

TEST_F(SessionMemoryTest, IsEnoughForMoreChecks) {
    log_in();
    std::vector<Charge> &one = charges_of(asked("one"));
    std::vector<Charge> &permit = charges_of(
        {.quota = quota_of(Algorithm::concurrency), .redis_key = "rl:{z:a}:concurrency:60000"});
    const std::string grants = grant(7);
    const std::string grants_permit = answer({99});
    const std::string grants_in_full = std::string(noscript) + grants;
    EXPECT_EQ(later_allocations([&] {
                  ask_for(one);
                  answer_with(grants);
                  session_->refund(one, now_);
                  answer_with("$1\r\n1\r\n");

                  ask_for(one);
                  answer_with(noscript);
                  answer_with(grants);

                  ask_for(permit);
                  answer_with(grants_permit);
                  session_->release(*std::exchange(permit[0].permit, nullptr), now_);
                  answer_with("$-1\r\n");
              }),
              0u);
    EXPECT_EQ(counter_.verdicts, rounds * 3);
}

TEST_F(SessionMemoryTest, IsEnoughForMoreRuns) {
    log_in();
    Asked of_run = asked("one");
    of_run.arguments = &log_arguments;
    std::vector<Charge> &one = charges_of(of_run);
    std::vector<Charge> &another = charges_of(of_run);
    const std::string granted = packed({time_of_redis, 7, 0, 0, 0});
    const std::string failed(granted.size(), '\xff');
    const std::string both = bulk_string(granted + granted);
    const std::string one_fails =
        bulk_string(granted + failed + "WRONGTYPE " + std::string(400, 'x'));
    EXPECT_EQ(later_allocations([&] {
                  for (const std::string *reply : {&both, &one_fails}) {
                      ask_for(one);
                      ask_for(another);
                      answer_with(*reply);
                  }
              }),
              0u);
    EXPECT_EQ(counter_.verdicts, rounds * 3);
    EXPECT_EQ(counter_.failures, rounds);
}

TEST_F(SessionMemoryTest, IsEnoughForMoreFaults) {
    log_in();
    std::vector<Charge> &one = charges_of(asked("one"));
    const std::string error = "-OOM command not allowed" + std::string(1000, 'x') + "\r\n";
    const std::string grants = grant(7);
    EXPECT_EQ(later_allocations([&] {
                  ask_for(one);
                  answer_with(error);

                  Command *left = ask_for(one);
                  answer_with("");
                  session_->forget(*left, now_);
                  answer_with(error);

                  ask_for(one);
                  answer_with("");
                  now_ += 100ms;
                  session_->expire(now_);
                  answer_with(grants);
              }),
              0u);
    EXPECT_EQ(counter_.failures, rounds * 2);
}

} // namespace
} // namespace redis_client
