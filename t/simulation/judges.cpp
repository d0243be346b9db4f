#include "simulation/judges.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <queue>
#include <ranges>
#include <set>
#include <span>
#include <utility>

namespace simulation {

namespace {

__extension__ using Wide = __int128;

/// For so long hosts may have different numbers for a rule, around a change.
constexpr int64_t of_two_minds_us = 2'500'000;

/// The numbers by which a key's requests were decided.
class Numbers {
  public:
    explicit Numbers(const JudgedKey &key) {
        for (const Grant &grant : key.grants) {
            add(grant.time_us, grant.limit, grant.capacity);
        }
        for (const Denial &denial : key.denials) {
            add(denial.time_us, denial.limit, denial.capacity);
        }
        for (const UnchargedCheck &check : key.uncharged) {
            add(check.time_us, check.limit, check.capacity);
        }
        std::ranges::stable_sort(all_, {}, &Entry::time_us);
    }

    bool are_always_the_same() const { return is_same_; }
    uint64_t largest_limit(int64_t from_us, int64_t until_us) const {
        return largest(from_us, until_us, &Entry::limit);
    }
    uint64_t largest_capacity(int64_t from_us, int64_t until_us) const {
        return largest(from_us, until_us, &Entry::capacity);
    }

  private:
    struct Entry {
        int64_t time_us;
        uint64_t limit;
        uint64_t capacity;
    };

    void add(int64_t time_us, uint64_t limit, uint64_t capacity) {
        is_same_ = is_same_ && (all_.empty() ||
                                (all_.front().limit == limit && all_.front().capacity == capacity));
        all_.push_back({time_us, limit, capacity});
    }
    uint64_t largest(int64_t from_us, int64_t until_us, uint64_t Entry::*number) const {
        if (is_same_ && !all_.empty()) {
            return all_.front().*number;
        }
        uint64_t largest = 0;
        for (auto entry = std::ranges::lower_bound(all_, from_us, {}, &Entry::time_us);
             entry != all_.end() && entry->time_us <= until_us; ++entry) {
            largest = std::max(largest, (*entry).*number);
        }
        return largest;
    }

    std::vector<Entry> all_;
    bool is_same_ = true;
};

std::string at(const Grant &grant) {
    return " at " + std::to_string(grant.time_us);
}

/// The units of a window that slides over the grants. What a request returns counts until it ends:
/// when Redis hears of it is not known. What it costs beyond its reservation is not granted.
class Window {
  public:
    Window(std::span<const Grant> grants, int64_t length_us)
        : grants_(grants), length_us_(length_us), is_returned_(grants.size()) {}

    /// Returns the units of the window that ends with this grant, one after the other.
    uint64_t sum_up_to(size_t last) {
        const int64_t now = grants_[last].time_us;
        sum_ += grants_[last].cost;
        ends_.emplace(grants_[last].ended_us, last);
        for (; !ends_.empty() && ends_.top().first <= now; ends_.pop()) {
            const size_t ended = ends_.top().second;
            is_returned_[ended] = true;
            sum_ -= ended >= first_ ? grants_[ended].returned() : 0;
        }
        for (; grants_[first_].time_us <= now - length_us_; ++first_) {
            const Grant &gone = grants_[first_];
            sum_ -= gone.cost - (is_returned_[first_] ? gone.returned() : 0);
        }
        return sum_;
    }

  private:
    std::span<const Grant> grants_;
    int64_t length_us_;
    std::vector<bool> is_returned_;
    using End = std::pair<int64_t, size_t>;
    std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
    size_t first_ = 0;
    uint64_t sum_ = 0;
};

/// How much a window may hold when it ends with this grant.
uint64_t most_of_window(const JudgedKey &key, const Numbers &numbers, const Grant &grant) {
    const int64_t now = grant.time_us;
    const int64_t window = key.rule.window_us;
    if (key.rule.algorithm == "sliding_log") {
        // Units that were leased, or that another shard has, may be of a time with another limit.
        return key.has_leases || key.rule.shards > 1
                   ? numbers.largest_limit(now - window - longest_lease_us, now + of_two_minds_us)
                   : grant.limit;
    }
    const uint64_t limit = numbers.largest_limit(
        now - 2 * window - (key.has_leases ? longest_lease_us : 0), now + of_two_minds_us);
    // A fixed window begins with the first request of a key, which may be one that left. Whatever
    // it is, an interval of its length touches two.
    return key.rule.algorithm == "sliding_window" ? 2 * limit - 1 : 2 * limit;
}

std::optional<std::string> judge_sum(const JudgedKey &key) {
    const Numbers numbers(key);
    Window window(key.grants, key.rule.window_us);
    for (size_t last = 0; last < key.grants.size(); ++last) {
        const uint64_t sum = window.sum_up_to(last);
        if (sum > key.times * most_of_window(key, numbers, key.grants[last])) {
            return std::to_string(sum) + " units in a window that ends" + at(key.grants[last]);
        }
    }
    return std::nullopt;
}

/// Returns the end of the fixed window that a grant is of, or 0 if nobody has said it. What a lease
/// grants is of the window of that time: the one that began last, where a return has ended another.
int64_t end_of_fixed_window(const std::set<int64_t> &ends, const Grant &grant, int64_t window_us) {
    if (grant.window_ends_us != 0) {
        return grant.window_ends_us;
    }
    const auto after = ends.upper_bound(grant.time_us + window_us);
    const int64_t end = after != ends.begin() ? *std::prev(after) : 0;
    return grant.by == GrantedBy::lease && end > grant.time_us ? end : 0;
}

/// Where a clock stepped back, a window is longer, and has two ends here, each with a part of its
/// grants.
std::optional<std::string> judge_fixed_windows(const JudgedKey &key) {
    std::set<int64_t> ends;
    for (const Grant &grant : key.grants) {
        ends.insert(grant.window_ends_us);
    }
    std::map<int64_t, std::vector<Grant>> windows;
    for (const Grant &grant : key.grants) {
        windows[end_of_fixed_window(ends, grant, key.rule.window_us)].push_back(grant);
    }
    windows.erase(0);
    const Numbers numbers(key);
    for (const auto &[end, grants] : windows) {
        const int64_t begin = std::min(end - key.rule.window_us, grants.front().time_us);
        const uint64_t limit =
            numbers.largest_limit(begin - of_two_minds_us, end + of_two_minds_us);
        Window all(grants, INT64_MAX);
        for (size_t last = 0; last < grants.size(); ++last) {
            const uint64_t sum = all.sum_up_to(last);
            if (sum > key.times * limit) {
                return std::to_string(sum) + " units in the window that ends at " +
                       std::to_string(end) + "," + at(grants[last]);
            }
        }
    }
    return std::nullopt;
}

/// A fixed window ends by the clock of Redis, which may step back: it goes on then, and no other
/// one begins. Where all units have been returned, the next one begins a window.
std::optional<std::string> judge_begins_of_fixed_windows(const JudgedKey &key) {
    const Grant *last = nullptr;
    const auto ends_us = [](const Grant &grant) {
        return grant.window_ends_us + grant.redis_ahead_us;
    };
    for (const Grant &grant : key.grants) {
        if (grant.window_ends_us == 0 || key.settles) {
            continue;
        }
        const bool is_other = last != nullptr && ends_us(grant) != ends_us(*last);
        if (is_other && grant.time_us > last->time_us &&
            grant.time_us + grant.redis_ahead_us < ends_us(*last)) {
            return "a window began" + at(grant) + " before the one of before has ended";
        }
        last = &grant;
    }
    return std::nullopt;
}

/// A window that slides counts what the one before has granted by how much of it would still be in
/// a window that ends now. That cannot be told from outside where numbers change, units are given
/// back, or Redis's clock steps back.
std::optional<std::string> judge_sliding_windows(const JudgedKey &key) {
    const auto is_other = [&](const Grant &grant) {
        return grant.redis_ahead_us != key.grants.front().redis_ahead_us;
    };
    if (key.settles || key.rule.shards > 1 || !Numbers(key).are_always_the_same() ||
        std::ranges::any_of(key.grants, is_other)) {
        return std::nullopt;
    }
    const int64_t length = key.rule.window_us;
    std::map<int64_t, uint64_t> taken; // by the windows' numbers
    for (const Grant &grant : key.grants) {
        const int64_t clock = grant.time_us + grant.redis_ahead_us;
        const int64_t window = clock / length;
        taken[window] += grant.cost;
        const Wide weighted = Wide{taken[window - 1]} * (length - clock % length);
        if (weighted + Wide{taken[window]} * length > Wide{key.times * grant.limit} * length) {
            return "more than two windows hold" + at(grant);
        }
    }
    return std::nullopt;
}

/// What a bucket has to hold at least, in parts of a unit: one unit comes back in the window.
class Bucket {
  public:
    explicit Bucket(int64_t window_us) : window_us_(window_us) {}

    void pass_to(int64_t now_us, uint64_t limit) {
        taken_ = std::max(Wide{0}, taken_ - Wide{now_us - last_us_} * limit);
        last_us_ = now_us;
    }
    void take(uint64_t units) { taken_ += Wide{units} * window_us_; }
    void give_back(uint64_t units) {
        taken_ = std::max(Wide{0}, taken_ - Wide{units} * window_us_);
    }
    int64_t last_us() const { return last_us_; }
    /// By how much more it would hold than it can, with so many units more.
    Wide excess(uint64_t units, uint64_t capacity) const {
        return taken_ + (Wide{units} - Wide{capacity}) * window_us_;
    }

  private:
    int64_t window_us_;
    Wide taken_ = 0;
    int64_t last_us_ = 0;
};

/// Never more than the capacity and what has come back meanwhile.
std::optional<std::string> judge_bucket(const JudgedKey &key) {
    struct Change {
        int64_t time_us;
        uint64_t returned;  // first, where both are at one time
        const Grant *grant; // null: units are returned
    };
    std::vector<Change> changes;
    for (const Grant &grant : key.grants) {
        changes.push_back({grant.time_us, 0, &grant});
        if (grant.returned() > 0) {
            changes.push_back({grant.ended_us, grant.returned(), nullptr});
        }
    }
    std::ranges::stable_sort(changes, [](const Change &one, const Change &other) {
        return std::pair(one.time_us, one.grant != nullptr) <
               std::pair(other.time_us, other.grant != nullptr);
    });
    const Numbers numbers(key);
    if (key.rule.shards > 1 && !numbers.are_always_the_same()) {
        // Such a bucket counts in time, unless an operator has set its burst, too. And a limit less
        // than the shards leaves some of them unused, with what was taken from them.
        return std::nullopt;
    }
    Bucket bucket(key.rule.window_us);
    for (const Change &change : changes) {
        const int64_t now = change.time_us;
        const uint64_t limit =
            numbers.largest_limit(bucket.last_us() - of_two_minds_us, now + of_two_minds_us);
        bucket.pass_to(now, key.times * limit);
        bucket.give_back(change.returned);
        if (change.grant == nullptr) {
            continue;
        }
        bucket.take(change.grant->cost);
        const uint64_t capacity = key.has_leases || key.rule.shards > 1
                                      ? numbers.largest_capacity(now - longest_lease_us, now)
                                      : change.grant->capacity;
        // Redis counts in microseconds: what is no whole number of them is rounded. A state that
        // another limit has led to is rounded, too.
        const Wide rounded =
            numbers.are_always_the_same() ? Wide{2 * limit} : Wide{2 * limit} + key.rule.window_us;
        if (bucket.excess(0, key.times * capacity) > rounded) {
            return "more than the capacity" + at(*change.grant);
        }
    }
    return std::nullopt;
}

/// Never more than the limit at a time.
std::optional<std::string> judge_in_flight(const JudgedKey &key) {
    struct Change {
        int64_t time_us;
        int64_t by;
        const Grant *grant;
    };
    std::vector<Change> changes;
    for (const Grant &grant : key.grants) {
        changes.push_back({grant.time_us, static_cast<int64_t>(grant.cost), &grant});
        changes.push_back({grant.ended_us, -static_cast<int64_t>(grant.cost), &grant});
    }
    std::ranges::stable_sort(changes, [](const Change &one, const Change &other) { // ends first
        return std::pair(one.time_us, one.by) < std::pair(other.time_us, other.by);
    });
    int64_t in_flight = 0;
    for (const Change &change : changes) {
        in_flight += change.by;
        if (change.by > 0 && in_flight > static_cast<int64_t>(key.times * change.grant->limit)) {
            return std::to_string(in_flight) + " in flight" + at(*change.grant);
        }
    }
    return std::nullopt;
}

bool has_room_in_bucket(const JudgedKey &key, const Denial &denial, int64_t since_us) {
    if (!Numbers(key).are_always_the_same()) {
        return false; // nobody can tell from outside
    }
    Bucket bucket(key.rule.window_us);
    for (const Grant &grant : key.grants) {
        if (grant.time_us > denial.time_us) {
            break;
        }
        if (grant.time_us >= since_us) {
            bucket.pass_to(grant.time_us, denial.limit);
            bucket.take(grant.cost);
        }
    }
    bucket.pass_to(denial.time_us, denial.limit);
    // A microsecond may be rounded, against the client.
    return bucket.excess(denial.cost, denial.capacity) + Wide{denial.limit} <= 0;
}

bool is_blocked(const JudgedKey &key, const Denial &denial, int64_t since_us) {
    return std::ranges::any_of(key.denials, [&](const Denial &other) {
        return other.time_us >= since_us && other.time_us <= denial.time_us &&
               denial.time_us <= other.blocked_until_us;
    });
}

/// Returns until when a client is blocked at a time. A block that began by a clock that has stepped
/// back since begins anew, and may end sooner: what was said last holds.
std::optional<int64_t> blocked_until(const JudgedKey &key, int64_t time_us) {
    const auto end = std::ranges::lower_bound(key.denials, time_us, {}, &Denial::time_us);
    std::optional<int64_t> until;
    int64_t said_us = INT64_MIN;
    for (const Denial &denial :
         std::ranges::subrange(key.denials.begin(), end) | std::views::reverse) {
        if (denial.time_us < said_us) {
            break; // nobody knows the order of denials of one microsecond
        }
        if (denial.is_by_redis && denial.blocked_until_us != 0) {
            said_us = denial.time_us;
            until = std::min(until.value_or(INT64_MAX), denial.blocked_until_us);
        }
    }
    return until;
}

} // namespace

std::optional<std::string> judge_grants(const JudgedKey &key) {
    if (key.rule.algorithm == "concurrency") {
        return judge_in_flight(key);
    }
    if (key.rule.is_bucket()) {
        return judge_bucket(key);
    }
    std::optional<std::string> wrong;
    if (key.rule.algorithm == "fixed_window") {
        wrong = judge_fixed_windows(key);
        wrong = wrong ? wrong : judge_begins_of_fixed_windows(key);
    } else if (key.rule.algorithm == "sliding_window") {
        wrong = judge_sliding_windows(key);
    }
    return wrong ? wrong : judge_sum(key);
}

bool is_denied_with_room(const JudgedKey &key, const Denial &denial, int64_t since_us) {
    const int64_t now = denial.time_us;
    if (is_blocked(key, denial, since_us)) {
        return false;
    }
    if (key.rule.is_bucket()) {
        return has_room_in_bucket(key, denial, since_us);
    }
    uint64_t taken = denial.cost;
    if (key.rule.algorithm == "concurrency") {
        for (const Grant &grant : key.grants) {
            // What it gives back comes to Redis a little later.
            const bool is_taken = grant.time_us >= since_us && grant.time_us <= now &&
                                  grant.ended_us + key.permits_return_within_us > now;
            taken += is_taken ? grant.cost : 0;
        }
        return taken <= denial.limit;
    }
    const int64_t windows = key.rule.algorithm == "sliding_window" ? 2 : 1;
    const int64_t before_us = std::max(now - windows * key.rule.window_us, since_us);
    auto grant = std::ranges::upper_bound(key.grants, before_us, {}, &Grant::time_us);
    for (; grant != key.grants.end() && grant->time_us <= now; ++grant) {
        taken += grant->cost;
    }
    return taken <= denial.limit;
}

/// Whom a rule has denied, it denies until the block ends. Denials meanwhile do not prolong it.
std::optional<std::string> judge_blocks(const JudgedKey &key, bool is_all_known) {
    constexpr int64_t rounded_us = 2'000;
    const Denial *first = nullptr; // of the last block
    for (const Denial &denial : key.denials) {
        if (!denial.is_by_redis || denial.blocked_until_us == 0) {
            continue;
        }
        const bool is_first = first == nullptr || first->blocked_until_us <= denial.time_us;
        const int64_t until =
            is_first ? denial.time_us + key.rule.block_us : first->blocked_until_us;
        if (is_all_known && std::abs(denial.blocked_until_us - until) > rounded_us) {
            return "blocked until " + std::to_string(denial.blocked_until_us) + ", not until " +
                   std::to_string(until);
        }
        first = is_first ? &denial : first;
    }
    for (const Grant &grant : key.grants) {
        const auto until = grant.has_block ? blocked_until(key, grant.time_us) : std::nullopt;
        if (until && grant.time_us < *until - rounded_us) {
            return "granted" + at(grant) + ", though blocked until " + std::to_string(*until);
        }
    }
    return std::nullopt;
}

} // namespace simulation
