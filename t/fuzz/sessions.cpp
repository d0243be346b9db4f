// A worker's session while connections come and go, and Redis answers well, with errors, too late
// or with any bytes. Every check is answered once, in time, and by no verdict but its own; and all
// is the same in whatever pieces the bytes come.

#include "honest_redis.hpp"
#include "pieces.hpp"
#include "rules.hpp"
#include "targets.hpp"

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace fuzz {
namespace {

using namespace std::chrono_literals;
using redis_client::Charge;
using redis_client::Failure;
using redis_client::Session;
using redis_client::Time;
using Lost = Session::Lost;
using Progress = Session::Progress;

redis_client::SessionSettings take_settings(Input &input) {
    redis_client::SessionSettings settings;
    settings.password = input.flag() ? "secret" : "";
    settings.database = input.number(0, 1);
    settings.needs_master = input.flag();
    settings.shapes = {input.one_of(questions()).shape};
    settings.timeout = std::chrono::milliseconds(input.number(1, 2000));
    settings.max_pending = input.number(1, 16);
    settings.breaker.failures = input.number(0, 3);
    return settings;
}

class Worker;

struct Check final : redis_client::CheckListener {
    Check(Worker &its_worker, size_t its_number) : worker(its_worker), number(its_number) {}
    void on_answer(std::optional<Failure> failure) override;

    Worker &worker;
    size_t number;
    Time deadline{0};
    redis_client::Call *call = nullptr; // while somebody waits
    bool is_answered = false;
    bool has_verdict = false;
    std::vector<Charge> charges;
    std::vector<std::string> keys;
};

/// With its Redis, its network and its clock.
class Worker {
  public:
    /// Bytes come in Pieces of these sizes.
    Worker(Input input, std::string_view piece_sizes)
        : input_(input),
          piece_sizes_(piece_sizes),
          settings_(take_settings(input_)),
          group_(settings_),
          session_(group_, 1) {}

    /// All that could be seen from outside.
    std::string run() {
        constexpr int most_steps = 300;
        static constexpr void (Worker::*steps[])() = {
            &Worker::ask,     &Worker::ask,     &Worker::send,   &Worker::send,
            &Worker::connect, &Worker::answer,  &Worker::answer, &Worker::send_some,
            &Worker::garbage, &Worker::abandon, &Worker::refund, &Worker::release,
            &Worker::wait,    &Worker::lose,    &Worker::settle,
        };
        for (int i = 0; i < most_steps && !input_.empty(); ++i) {
            (this->*input_.one_of(steps))();
            check_waiting();
        }
        end();
        return history_;
    }

    void answered(Check &check, std::optional<Failure> failure);

  private:
    void note(std::string_view what, uint64_t number) {
        history_ += std::string(what) + ' ' + std::to_string(number) + '\n';
    }

    void ask();
    void connect();
    void send();
    void send_some();
    void answer();
    void garbage();
    void abandon();
    void refund();
    void release();
    void wait();
    void lose();
    void settle();
    void end();

    void send_bytes(size_t most);
    void receive(std::string_view bytes, bool is_honest);
    void disconnect(Lost lost);
    void release_slots(Check &check);
    void check_waiting();
    Check *take_check() {
        return checks_.empty() ? nullptr : &checks_[input_.number(0, checks_.size() - 1)];
    }

    Input input_;
    std::string_view piece_sizes_;
    redis_client::SessionSettings settings_;
    redis_client::SessionGroup group_;
    Session session_;
    HonestRedis redis_;
    std::string wire_; // what Redis has not read, for it is no whole command
    bool is_connected_ = false;
    bool is_trusted_ = false; // nobody but Redis has said anything on this connection
    Time now_{1000};
    std::deque<Check> checks_;
    size_t keys_asked_ = 0;
    std::string history_;
};

void Check::on_answer(std::optional<Failure> failure) {
    worker.answered(*this, failure);
}

void Worker::answered(Check &check, std::optional<Failure> failure) {
    require(check.call != nullptr && !check.is_answered, "a check is answered once");
    check.call = nullptr;
    check.is_answered = true;
    check.has_verdict = !failure;
    note("answered", check.number);
    note("failure", failure ? 1 + static_cast<uint64_t>(*failure) : 0);
    bool is_granted = true;
    for (const Charge &charge : check.charges) {
        require(!failure || !charge.is_charged, "without a verdict nothing is charged");
        require(!failure || charge.slot == nullptr, "nor held");
        if (!failure) {
            require_in_range(charge.quota, charge.verdict);
            is_granted = is_granted && charge.verdict.decision == rate_limit::Decision::granted;
            note("charged", charge.is_charged ? 1 : 0);
            note("remaining", charge.verdict.remaining);
            note("retry", static_cast<uint64_t>(charge.verdict.retry_after.count()));
        }
    }
    for (const Charge &charge : check.charges) {
        require(failure || !is_trusted_ || !is_granted ||
                    charge.verdict.remaining == number_in(charge.redis_key),
                "a verdict is that of its own key");
    }
}

void Worker::ask() {
    constexpr size_t most_checks = 100;
    if (checks_.size() == most_checks) {
        return;
    }
    const Question &question = input_.one_of(questions());
    Check &check = checks_.emplace_back(*this, checks_.size());
    check.deadline = now_ + settings_.timeout;
    check.keys.reserve(question.rules.size());
    const uint64_t key = input_.number(1, 50);
    keys_asked_ += question.rules.size();
    for (const redis_client::Asked &rule : question.rules) {
        Charge &charge = check.charges.emplace_back();
        charge.quota = rule.quota;
        charge.dry_run = rule.dry_run;
        charge.redis_key = check.keys.emplace_back(key_of(rule.quota, key));
        charge.arguments = rule.arguments;
    }
    const auto asked = session_.ask(check.charges, check, now_);
    if (const auto *failure = std::get_if<Failure>(&asked)) {
        note("refused", static_cast<uint64_t>(*failure));
        check.is_answered = true;
    } else {
        check.call = std::get<redis_client::Call *>(asked);
    }
}

void Worker::connect() {
    if (!is_connected_) {
        is_connected_ = is_trusted_ = true;
        redis_.connected();
        wire_.clear();
        session_.connected();
    }
}

/// So many bytes at most, as a socket takes them.
void Worker::send_bytes(size_t most) {
    if (session_.is_ready()) {
        session_.flush(now_);
    }
    redis_client::ByteQueue &output = session_.output();
    const std::string_view bytes = output.bytes().substr(0, most);
    note("sent", bytes.size());
    wire_ += bytes;
    output.consume(bytes.size());
    if (is_connected_ && output.empty()) {
        redis_.take(std::exchange(wire_, {}));
    }
}

void Worker::send() {
    send_bytes(SIZE_MAX);
}

void Worker::send_some() {
    send_bytes(input_.number(0, 4095));
}

void Worker::answer() {
    enum : uint64_t { other, long_text, honest = 7 };
    std::string bytes;
    bool is_honest = true;
    for (uint64_t replies = input_.number(1, 8); replies > 0; --replies) {
        const uint64_t kind = input_.number(0, honest);
        is_honest = is_honest && kind != other && kind != long_text;
        if (kind == other) {
            bytes += redis_.answer_with(input_.one_of(other_replies));
        } else if (kind == long_text) {
            bytes += redis_.answer_with(
                redis_client::bulk_string(std::string(input_.number(0, 40'000), 'x')));
        } else {
            bytes += redis_.answer(input_);
        }
    }
    receive(bytes, is_honest);
}

void Worker::garbage() {
    is_trusted_ = false;
    receive(input_.flag() ? input_.text(255) : input_.one_of(no_replies), false);
}

/// Turns of the event loop with nothing but answers, until there is nothing more to answer.
void Worker::settle() {
    connect();
    send();
    while (is_connected_ && redis_.has_commands()) {
        std::string bytes;
        while (redis_.has_commands()) {
            bytes += redis_.answer(input_);
        }
        receive(bytes, true);
        send();
    }
    require(!is_trusted_ || !session_.has_waiting(), "all that was asked is answered");
}

void Worker::receive(std::string_view bytes, bool is_honest) {
    if (!is_connected_) {
        return;
    }
    Progress all = Progress::more;
    const auto is_over = [&] { return all == Progress::broken || all == Progress::refused; };
    for (Pieces pieces(bytes, piece_sizes_); !pieces.empty() && !is_over();) {
        const Progress progress = session_.received(pieces.take(), now_);
        all = progress == Progress::more ? all : progress;
    }
    note("progress", static_cast<uint64_t>(all));
    history_ += session_.problem().what;
    history_ += session_.problem().redis_said;
    history_ += '\n';
    require(session_.problem().redis_said.size() <= redis_client::Reply::longest_text,
            "of what Redis says no more is kept than a reply has");
    if (is_over()) {
        require(!is_honest || !is_trusted_, "no answer breaks the connection");
        disconnect(Lost::unreachable);
    }
}

void Worker::disconnect(Lost lost) {
    is_connected_ = is_trusted_ = false;
    session_.disconnected(lost, now_);
}

void Worker::lose() {
    disconnect(session_.is_ready() && input_.flag() ? Lost::in_use : Lost::unreachable);
}

void Worker::abandon() {
    Check *check = take_check();
    if (check == nullptr || check->call == nullptr) {
        return;
    }
    if (check->call->is_sent && check->number % 2 == 1) { // somebody still wants to know
        std::vector<Charge> copies = check->charges;
        session_.hand_over(*check->call, copies, *check, now_);
        check->charges = std::move(copies);
        return;
    }
    session_.abandon(*std::exchange(check->call, nullptr), now_);
    check->is_answered = true; // nobody is to be told any more
    check->charges.clear();
}

void Worker::refund() {
    Check *check = take_check();
    if (check != nullptr && check->has_verdict) {
        session_.refund(check->charges, now_);
    }
}

void Worker::release() {
    if (Check *check = take_check()) {
        if (check->has_verdict) {
            release_slots(*check);
        }
    }
}

void Worker::release_slots(Check &check) {
    for (Charge &charge : check.charges) {
        if (charge.slot != nullptr) {
            session_.release(*std::exchange(charge.slot, nullptr), now_);
        }
    }
}

/// As a timer does that is set to when the session says.
void Worker::wait() {
    now_ += std::chrono::milliseconds(input_.number(0, input_.flag() ? 255 : 65'535));
    const auto next = session_.next_expiry();
    if (next && *next <= now_ && session_.expire(now_)) {
        require(is_connected_, "what is given up was there");
        disconnect(Lost::unreachable);
    }
}

void Worker::check_waiting() {
    const auto next = session_.next_expiry();
    size_t waiting = 0;
    for (const Check &check : checks_) {
        require(check.is_answered == (check.call == nullptr), "a check is answered or waits");
        waiting += check.is_answered ? 0 : 1;
        require(check.is_answered || (next && *next <= check.deadline),
                "whoever waits is told by the deadline");
    }
    require(session_.has_waiting() == (waiting > 0), "the session knows who waits");
    require(waiting <= settings_.max_pending, "no more wait than may");
    note("pending", session_.pending());
}

/// Everything comes to an end.
void Worker::end() {
    disconnect(Lost::unreachable);
    for (Check &check : checks_) {
        require(check.is_answered, "all that were asked are answered");
        release_slots(check);
    }
    now_ += 24h;
    while (const auto next = session_.next_expiry()) {
        require(*next <= now_, "nothing is left to wait for");
        require(!session_.expire(now_), "nothing is unanswered");
    }
    require(session_.pending() == 0 && !session_.has_errands(), "nothing is left over");
    const redis_client::Counters &counters = session_.counters();
    require(counters.verdicts + counters.failures + counters.not_asked <= checks_.size(),
            "a check is counted once");
    require(redis_.keys_in_full() <= keys_asked_, "a check is sent in full once");
}

} // namespace

void sessions(Input input) {
    const std::string_view piece_sizes = input.text(8);
    require_same_in_pieces({piece_sizes},
                           [&](std::string_view sizes) { return Worker(input, sizes).run(); });
}

} // namespace fuzz
