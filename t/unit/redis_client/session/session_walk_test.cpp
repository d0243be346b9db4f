// A long random walk through all that may happen to a session.

#include "session_test.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace redis_client {
namespace {

enum class RulesKind { log, shared_log, permit, both };

constexpr std::chrono::milliseconds walk_window = 6s;

std::vector<Asked> rules_of(RulesKind kind, uint64_t number) {
    const std::string key = std::to_string(number);
    const Asked permit{
        .quota = {.algorithm = Algorithm::concurrency, .window = walk_window, .limit = 100},
        .redis_key = "permit:" + key};
    const Asked log{
        .quota = {.algorithm = Algorithm::sliding_log, .window = walk_window, .limit = 100},
        .redis_key = "log:" + key};
    static const WireWords of_all_logs = check_arguments(log.quota, false);
    Asked shared_log = log;
    shared_log.arguments = &of_all_logs;
    switch (kind) {
    case RulesKind::log:
        return {log};
    case RulesKind::shared_log: // whose checks share runs
        return {shared_log};
    case RulesKind::permit:
        return {permit};
    case RulesKind::both:
        return {permit, log};
    }
    return {};
}

/// Answers each check by its key, so that a verdict given to another's listener shows, and knows
/// what it has charged.
class PretendedRedis {
  public:
    explicit PretendedRedis(uint32_t seed) : random_(seed) {}

    void take(const Commands &commands) {
        for (const WireCommand &command : commands) {
            replies_ += reply(command);
        }
    }

    /// Up to `size` bytes of what it has to say.
    std::string say(size_t size) {
        const std::string said = replies_.substr(0, size);
        replies_.erase(0, size);
        return said;
    }

    void hang_up() { replies_.clear(); }
    void have_no_more_faults() { has_faults_ = false; }

    std::set<std::string> permits;    // that are taken
    std::map<std::string, int> units; // of logs, by key
    uint64_t renewed = 0, released = 0, refunds = 0;
    uint64_t runs = 0, failed_alone = 0;

  private:
    std::string reply(const WireCommand &command) {
        if (command[0] == "SCRIPT") {
            return "+sha1\r\n";
        }
        const uint32_t chance = has_faults_ ? random_() % 16 : 15;
        if (chance == 0) {
            return "-ERR no luck\r\n";
        }
        if (chance == 1 && command[0] == "EVALSHA") {
            return std::string(noscript);
        }
        const std::string &its_script = command[1];
        if (its_script == release_.sha1 || its_script == release_.source) {
            permits.erase(command[4]);
            ++released;
            return "$-1\r\n";
        }
        if (its_script == renew_.source) {
            return renew(command);
        }
        if (its_script == refund_.sha1 || its_script == refund_.source) {
            return refund(command);
        }
        if (its_script == run_.sha1 || its_script == run_.source) {
            return run(command);
        }
        return check(command, chance < 5);
    }

    std::string refund(const WireCommand &command) {
        const size_t keys = std::stoul(command[2]);
        for (size_t i = 0; i < keys; ++i) {
            EXPECT_GT(units[command[3 + i]]--, 0) << "more was given back than taken";
        }
        refunds += keys;
        return bulk_string(std::string(keys, '1'));
    }

    std::string run(const WireCommand &command) {
        std::string answers;
        std::string failure;
        const size_t count = std::stoul(command[2]);
        for (size_t i = 0; i < count; ++i) {
            const std::string &key = command[3 + i];
            const uint32_t chance = has_faults_ ? random_() % 16 : 15;
            if (chance < 4) {
                answers += std::string(size_t{5} * 8, '\xff');
                failure = "WRONGTYPE no luck";
                ++failed_alone;
            } else {
                const bool denies = chance < 8;
                units[key] += denies ? 0 : 1;
                answers += packed({time_of_redis, denies ? -1 : number_of(key), 0, 0, denies});
            }
        }
        ++runs;
        return bulk_string(answers + failure);
    }

    std::string renew(const WireCommand &command) {
        const size_t count = std::stoul(command[2]);
        for (size_t i = 0; i < count; ++i) {
            const std::string &name = command[3 + count + 3 * i + 2];
            EXPECT_TRUE(permits.contains(name)) << "nobody holds " << name;
            ++renewed;
        }
        return "$-1\r\n";
    }

    static int64_t number_of(const std::string &key) {
        return std::stoll(key.substr(key.find(':') + 1));
    }

    std::string check(const WireCommand &command, bool denies) {
        const std::string &key = command[3];
        const int64_t number = number_of(key);
        const bool has_two = command[2] == "2";
        const int64_t left = denies ? -1 : number;
        if (key.starts_with("log:")) {
            units[key] += denies ? 0 : 1;
            return answer({left, 0, 0, denies ? 1 : 0});
        }
        if (!denies) {
            permits.insert(command[has_two ? 9 : 8]);
            if (has_two) {
                ++units[command[4]];
            }
        }
        return has_two ? answer({number, left, 0, 0, denies ? 1 : 0}) : answer({left});
    }

    std::mt19937 random_;
    bool has_faults_ = true;
    std::string replies_;
    const Script release_ = refund_script(Algorithm::concurrency);
    const Script renew_ = renew_script();
    const Script refund_ = settlement_script(Algorithm::sliding_log, SettlementKind::refund);
    const Script run_ = batch_script(shape_of(Algorithm::sliding_log));
};

struct Client {
    std::unique_ptr<Listener> listener = std::make_unique<Listener>();
    Command *check = nullptr;
    uint64_t number = 0;
    bool is_gone = false; // abandoned, or has given back all it had

    bool is_waiting() const { return !is_gone && listener->results.empty(); }
    bool has_verdict() const {
        return !listener->results.empty() && std::holds_alternative<Verdict>(listener->results[0]);
    }
    bool has_charges() const {
        return has_verdict() && !is_gone && listener->charges()[0].is_charged;
    }
};

class SessionWalkTest : public SessionTest {
  protected:
    SessionWalkTest() {
        SessionSettings settings = with_max_pending(50);
        settings.shapes = {shape_of(rules_of(RulesKind::log, 0)),
                           shape_of(rules_of(RulesKind::permit, 0))};
        start(settings);
    }

    void ask_one() {
        Client client;
        client.number = random_() % 100;
        const RulesKind kind{static_cast<int>(random_() % 4)};
        client.check = ask_in_turn(*client.listener, rules_of(kind, client.number));
        ++asked_;
        if (client.check != nullptr) {
            clients_.push_back(std::move(client));
        } else {
            EXPECT_EQ(client.listener->charges()[0].permit, nullptr);
        }
    }

    Client *first(bool (Client::*is_such)() const) {
        const auto found = std::ranges::find_if(clients_, is_such);
        return found != clients_.end() ? &*found : nullptr;
    }

    void abandon_one() {
        if (Client *client = first(&Client::is_waiting)) {
            if (random_() % 2 == 0) {
                ++abandoned_;
                session_->abandon(*client->check, now_);
                left_.push_back(std::move(client->listener));
                clients_.erase(clients_.begin() + (client - clients_.data()));
                return;
            }
            ++(client->check->is_sent ? abandoned_ : never_sent_);
            session_->forget(*client->check, now_);
            client->is_gone = true;
        }
    }

    /// A request ends, or is denied elsewhere.
    void give_back_one() {
        if (Client *client = first(&Client::has_charges)) {
            Permit *&permit = client->listener->charges()[0].permit;
            if (permit != nullptr && random_() % 2 == 0) {
                session_->release(*std::exchange(permit, nullptr), now_);
            } else {
                session_->refund(client->listener->charges(), now_);
            }
            client->is_gone = true;
        }
    }

    void disconnect() {
        session_->disconnected(random_() % 2 == 0 ? Lost::in_use : Lost::unreachable, now_);
        redis_.hang_up();
        is_connected_ = false;
    }

    void connect() {
        session_->connected();
        wire_.clear();
        is_connected_ = true;
    }

    void step() {
        now_ += Time(random_() % 5);
        const uint32_t dice = random_() % 100;
        if (dice < 30) {
            ask_one();
        } else if (dice < 33) {
            abandon_one();
        } else if (dice < 50) {
            give_back_one();
        } else if (dice < 90 && is_connected_ && !is_stalled_) {
            redis_.take(sent());
            ASSERT_NE(receive(redis_.say(random_() % 400)), Progress::broken);
        } else if (dice < 95) {
            if (session_->expire(now_)) {
                disconnect();
            }
            ASSERT_GT(session_->next_expiry().value_or(now_ + 1ms), now_); // else nginx would spin
        } else if (!is_connected_) {
            connect();
        } else if (dice == 98) {
            is_stalled_ = !is_stalled_;
        } else if (dice == 99 && random_() % 4 == 0) {
            disconnect();
        }
    }

    /// Looks at what each was told, and forgets those who have nothing any more.
    void look_at_clients() {
        for (Client &client : clients_) {
            const Results &results = client.listener->results;
            const Charge &first = client.listener->charges()[0];
            ASSERT_LE(results.size(), 1u);
            ASSERT_FALSE(client.is_gone && first.permit != nullptr);
            if (!client.has_charges()) {
                ASSERT_TRUE(first.permit == nullptr || client.is_waiting());
                continue;
            }
            ASSERT_EQ(first.verdict.remaining, client.number);
            if (first.permit != nullptr) {
                ASSERT_TRUE(redis_.permits.contains(std::string(first.permit->name)));
            }
        }
        std::erase_if(clients_, [&](const Client &client) {
            const bool is_done = !client.is_waiting() && !client.has_charges();
            verdicts_ += is_done && client.has_verdict() ? 1 : 0;
            return is_done;
        });
    }

    /// All goes well from now on.
    void settle() {
        redis_.have_no_more_faults();
        for (int turn = 0; turn < 1000; ++turn) {
            now_ += 10ms;
            ASSERT_FALSE(session_->expire(now_));
            redis_.take(sent());
            ASSERT_NE(receive(redis_.say(SIZE_MAX)), Progress::broken);
            give_back_one();
            look_at_clients();
        }
    }

    PretendedRedis redis_{2};
    std::mt19937 random_{1};
    std::vector<Client> clients_;
    std::vector<std::unique_ptr<Listener>> left_; // by those who are gone
    bool is_connected_ = false;
    bool is_stalled_ = false;
    uint64_t asked_ = 0, verdicts_ = 0, never_sent_ = 0, abandoned_ = 0;
};

TEST_F(SessionWalkTest, TellsEachOnceAndGivesAllBackWhateverHappens) {
    for (int i = 0; i < 100'000; ++i) {
        ASSERT_NO_FATAL_FAILURE(step()) << i;
        ASSERT_NO_FATAL_FAILURE(look_at_clients()) << i;
    }
    disconnect();
    connect();
    ASSERT_NO_FATAL_FAILURE(settle());
    EXPECT_TRUE(clients_.empty());
    EXPECT_GT(left_.size(), 100u);
    EXPECT_TRUE(std::ranges::all_of(left_, [](const auto &listener) {
        return listener->results.size() == 1 && listener->charges().front().permit == nullptr;
    }));
    EXPECT_TRUE(redis_.permits.empty());
    EXPECT_FALSE(session_->has_background_commands());

    const Counters &counters = session_->counters();
    const uint64_t done = counters.verdicts + counters.failures + never_sent_;
    EXPECT_LE(done, asked_);
    EXPECT_GE(done + abandoned_, asked_); // of which Redis may have run none
    for (const uint64_t count :
         {verdicts_, redis_.renewed, redis_.released, redis_.refunds, redis_.runs}) {
        EXPECT_GT(count, 400u); // else the walk has shown little
    }
    EXPECT_GT(redis_.failed_alone, 200u);
}

} // namespace
} // namespace redis_client
