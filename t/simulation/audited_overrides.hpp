// Holds what decided requests against what operators had set: SPEC section 10. It knows nothing of
// the code. What excuses a host that does not obey stands in audited_overrides.cpp.
#pragma once

#include "simulation/audited_rule.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simulation {

/// What an operator has set for a client, a client at a rule, or a rule.
struct Setting {
    enum class Action { none, numbers, ban, exempt };

    Action action = Action::none;
    std::optional<uint64_t> limit = std::nullopt;
    std::optional<uint64_t> burst = std::nullopt;

    bool operator==(const Setting &) const = default;
};

/// A write of an operator. The key or the rule may be empty, for all of them.
struct OperatorWrite {
    std::string key;
    std::string rule;
    Setting what;
    int64_t sent_us = 0;
    int64_t done_us = INT64_MAX; // when the operator was answered, or gave up
    bool is_acknowledged = false;
    int64_t expires_us = INT64_MAX;
    int64_t obeyed_us = INT64_MAX; // by all hosts, as the judge finds out
};

/// What a host made of it, for one request and rule. A limit and a capacity, unless the client was
/// banned, or was exempt.
struct Obeyed {
    std::string key;
    const AuditedRule *rule = nullptr;
    int64_t time_us = 0;
    Setting::Action action = Setting::Action::numbers;
    uint64_t limit = 0;
    uint64_t capacity = 0; // of buckets
};

class AuditedOverrides {
  public:
    /// Returns a number by which the write is known.
    size_t write(const OperatorWrite &write) {
        writes_.push_back(write);
        return writes_.size() - 1;
    }
    OperatorWrite &written(size_t number) { return writes_[number]; }
    /// Whether operators have ever written something that concerns the key at the rule.
    bool has_written_of(const std::string &key, const std::string &rule) const {
        return std::ranges::any_of(writes_, [&](const OperatorWrite &write) {
            return (write.key.empty() || write.key == key) &&
                   (write.rule.empty() || write.rule == rule);
        });
    }
    /// Redis has forgotten all that operators had set.
    void forget_all(int64_t time_us) { forgotten_.push_back(time_us); }
    /// Nobody knows what of it Redis still has, from then on: any of it may hold, or none.
    void doubt_all(int64_t time_us) {
        doubted_.push_back({.from_us = time_us, .of = Doubt::Of::all});
    }
    /// Redis has lost what was written last, and hosts have not: what all hosts obeyed until then
    /// holds on. `clock_steps` says whether another clock says now when overrides expire.
    void lose_newest(int64_t time_us, bool clock_steps) {
        doubted_.push_back(
            {.from_us = time_us,
             .of = clock_steps ? Doubt::Of::newest_and_expiring : Doubt::Of::newest});
    }
    /// A worker of a host ends, or stands still, and with it what it may know for the host.
    void lose_worker(int64_t time_us) { lost_workers_.push_back(time_us); }
    bool has_lost_workers() const { return !lost_workers_.empty(); }
    /// Between these times a host may not have heard of changes: Redis, the network or a worker was
    /// in trouble.
    void disturb(int64_t from_us, int64_t until_us) { disturbed_.emplace_back(from_us, until_us); }

    /// Returns when all hosts obey what was done at a time, after judge() was called.
    int64_t obeyed_by(int64_t time_us) const;

    void obey(const Obeyed &obeyed) { obeyed_.push_back(obeyed); }

    /// Returns what is wrong.
    std::vector<std::string> judge();
    /// How many decisions were judged under an override that had to hold.
    uint64_t enforced() const { return enforced_; }

  private:
    /// A write, or that all was forgotten, and when all hosts obey it.
    struct Replacement {
        int64_t sent_us;
        int64_t obeyed_us;
    };
    /// From a time on nobody knows whether what was written still holds.
    struct Doubt {
        enum class Of { all, newest, newest_and_expiring };
        int64_t from_us;
        Of of;
        int64_t until_us = 0; // all hosts obey then what is left
    };
    struct Register {
        std::vector<OperatorWrite> writes; // in the order in which they were sent
        std::vector<Replacement> replacements;

        bool is_doubted_by(const Doubt &doubt) const;
        bool is_over(int64_t done_us, int64_t time_us) const;
    };

    void sort_writes();
    void settle_doubts();
    std::vector<Setting> possible(const std::string &key, const std::string &rule, int64_t time_us);
    bool may_be(const Obeyed &obeyed);
    std::string describe(const Obeyed &obeyed);

    std::vector<OperatorWrite> writes_;
    std::vector<int64_t> forgotten_;
    std::vector<Doubt> doubted_;
    std::vector<int64_t> lost_workers_;
    std::vector<std::pair<int64_t, int64_t>> disturbed_;
    std::vector<Obeyed> obeyed_;
    std::map<std::pair<std::string, std::string>, Register> registers_; // by key and rule
    uint64_t enforced_ = 0;
};

} // namespace simulation
