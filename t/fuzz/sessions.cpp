// A worker's session while connections come and go, and Redis answers well, with errors, too late
// or with any bytes. Every check is answered once, in time, and by no verdict but its own; and all
// is the same in whatever pieces the bytes come.

#include "pieces.hpp"
#include "simulation.hpp"
#include "targets.hpp"

#include <string>
#include <utility>

namespace fuzz {
namespace {

redis_client::SessionSettings take_login(Input &input) {
    redis_client::SessionSettings settings;
    settings.password = input.flag() ? "secret" : "";
    settings.database = input.number(0, 1);
    settings.needs_master = input.flag();
    return settings;
}

/// With one Redis.
class Worker final : public Simulation {
  public:
    Worker(const redis_client::SessionSettings &settings, Input input, std::string_view piece_sizes)
        : Simulation(settings, input, piece_sizes, 1) {}

  private:
    void step() override {
        static constexpr void (Worker::*steps[])() = {
            &Worker::ask,     &Worker::ask,     &Worker::send,   &Worker::send,
            &Worker::connect, &Worker::answer,  &Worker::answer, &Worker::send_some,
            &Worker::garbage, &Worker::abandon, &Worker::refund, &Worker::release,
            &Worker::wait,    &Worker::lose,    &Worker::settle,
        };
        (this->*input_.one_of(steps))();
        require(node_.redis.keys_in_full() <= keys_asked_, "a check is sent in full once");
    }

    void ask();
    void answer();
    void settle();

    Node &node_ = nodes_.front();
    size_t keys_asked_ = 0;
};

void Worker::ask() {
    constexpr size_t most_checks = 100;
    if (checks_.size() == most_checks) {
        return;
    }
    const Question &question = input_.one_of(questions());
    keys_asked_ += keys_of(question);
    Simulation::ask(node_.session, question, input_.number(1, 50));
}

void Worker::answer() {
    enum : uint64_t { other, long_text, honest = 7 };
    std::string bytes;
    bool is_honest = true;
    for (uint64_t replies = input_.number(1, 8); replies > 0; --replies) {
        const uint64_t kind = input_.number(0, honest);
        is_honest = is_honest && kind != other && kind != long_text;
        if (kind == other) {
            bytes += node_.redis.answer_with(input_.one_of(other_replies));
        } else if (kind == long_text) {
            bytes += node_.redis.answer_with(
                redis_client::bulk_string(std::string(input_.number(0, 40'000), 'x')));
        } else {
            bytes += node_.redis.answer(input_);
        }
    }
    receive(node_, bytes, is_honest);
}

/// Turns of the event loop with nothing but answers, until there is nothing more to answer.
void Worker::settle() {
    connect(node_);
    send();
    while (node_.is_connected && node_.redis.has_commands()) {
        std::string bytes;
        while (node_.redis.has_commands()) {
            bytes += node_.redis.answer(input_);
        }
        receive(node_, bytes, true);
        send();
    }
    require(!node_.is_trusted || !node_.session.has_waiting(), "all that was asked is answered");
}

} // namespace

void sessions(Input input) {
    const std::string_view piece_sizes = input.text(8);
    const auto settings = take_settings(input, take_login(input));
    require_same_in_pieces({piece_sizes}, [&](std::string_view sizes) {
        return Worker(settings, input, sizes).run();
    });
}

} // namespace fuzz
