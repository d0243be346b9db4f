// Hosts that lease units of one key from a real Redis, on a clock that goes from one event to the
// next. They take, fetch and return units by the code that nginx runs, with checks that take time
// on their way.
#pragma once

#include "host.hpp"
#include "request_source.hpp"
#include "scenario.hpp"

#include "model/granted.hpp"
#include "model/models.hpp"
#include "model/redis.hpp"
#include "redis_client/session/check.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <vector>

namespace simulation {

struct Outcome {
    uint64_t requests = 0;
    uint64_t granted = 0;            // of them
    uint64_t by_lease = 0;           // of those granted
    uint64_t leased = 0;             // units
    uint64_t returned = 0;           // units of them that were sent back
    uint64_t unanswered = 0;         // requests whose check failed, or whose worker died meanwhile
    uint64_t exact = 0;              // granted by the rule without leases
    std::array<uint64_t, 3> calls{}; // checks, fetches in the background, and returns
    std::optional<Time> too_much_at; // when more was granted than the rule allows

    double granted_of_exact() const;
    double by_lease_of_granted() const;
    double calls_of_request() const;
};

class Fleet {
  public:
    Fleet(const Scenario &scenario, model::Redis &redis, model::Clock &clock);

    Outcome run();

  private:
    struct Call {
        enum class Kind : uint8_t { check, fetch, give_back };
        Kind kind;
        redis_client::Charge charge;
        rate_limit::LeaseClaim claim; // if units are wanted
        size_t host;
        uint64_t life = 0;                  // of the host
        std::chrono::microseconds asked{0}; // by the host's clock
    };
    struct Event {
        enum class Kind : uint8_t { at_redis, answer, timeout, lease_end, death };
        Time time;
        uint64_t number = 0; // events of one time happen in the order in which they were planned
        Kind kind;
        size_t index; // of the call, or of the host
        uint64_t life = 0;
        std::chrono::microseconds lease_end{0}; // by the host's clock
        bool operator>(const Event &other) const;
    };

    redis_client::Charge leasing_charge(uint64_t cost) const;
    void plan(Event event);
    void run_events(Time end);
    void happen(const Event &event);
    Host &wake(size_t host);

    void request(size_t host);
    void send(Call call);
    bool is_lost();
    Time one_way();

    void run_at_redis(size_t index);
    void count_granted(uint64_t units, int64_t window_end);
    void on_answer(const Call &call, bool is_answered);
    void keep_lease(const Call &call, bool is_answered);
    void plan_lease_end(size_t host, std::chrono::microseconds end);
    void on_lease_end(const Event &event);
    void return_ended(size_t host, const rate_limit::LeaseBook::Account &account);
    void return_units(size_t host, uint64_t units, int64_t receipt);
    void plan_death(size_t host);
    void die(size_t host);

    int64_t redis_now() const { return began_ + now_.count(); }

    const Scenario &scenario_;
    model::Redis &redis_;
    model::Clock &clock_;
    int64_t began_; // by Redis's clock
    std::mt19937_64 random_;
    Time now_{0};
    std::vector<Host> hosts_;
    std::chrono::microseconds lease_time_;
    std::chrono::microseconds longest_denial_;

    redis_client::Charge plain_, leasing_, fetching_; // without the units that they want
    std::vector<Call> calls_;
    std::vector<size_t> free_calls_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    uint64_t last_event_ = 0;

    std::map<int64_t, int64_t> window_ends_; // of a fixed window, by the receipts of its leases
    model::Granted promise_;
    Outcome outcome_;
};

} // namespace simulation
