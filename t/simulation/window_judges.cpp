#include "simulation/window_judges.hpp"

#include "simulation/numbers_of_key.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <queue>
#include <set>
#include <span>
#include <utility>

namespace simulation {

namespace {

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
                   ? numbers.largest_limit(now - window - key.longest_lease_us,
                                           now + of_two_minds_us(key))
                   : grant.limit;
    }
    const uint64_t limit = numbers.largest_limit(
        now - 2 * window - (key.has_leases ? key.longest_lease_us : 0), now + of_two_minds_us(key));
    // A fixed window begins with the first request of a key, which may be one that left. Whatever
    // it is, an interval of its length touches two.
    return key.rule.algorithm == "sliding_window" ? 2 * limit - 1 : 2 * limit;
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
std::optional<std::string> judge_fixed_windows(const JudgedKey &key, const Numbers &numbers) {
    std::set<int64_t> ends;
    for (const Grant &grant : key.grants) {
        ends.insert(grant.window_ends_us);
    }
    std::map<int64_t, std::vector<Grant>> windows;
    for (const Grant &grant : key.grants) {
        windows[end_of_fixed_window(ends, grant, key.rule.window_us)].push_back(grant);
    }
    windows.erase(0);
    for (const auto &[end, grants] : windows) {
        const int64_t begin = std::min(end - key.rule.window_us, grants.front().time_us);
        const uint64_t limit =
            numbers.largest_limit(begin - of_two_minds_us(key), end + of_two_minds_us(key));
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
/// one begins. What begins a window need not be a grant that is known: a check whose client has
/// left does, too, perhaps before the clock stepped back. Where all units have been returned, the
/// next one begins a window: also those of leases, where a copy is told of them that has not seen
/// them taken. A window ends when a calendar says so, if one does.
std::optional<std::string> judge_ends_of_fixed_windows(const JudgedKey &key) {
    const std::vector<int64_t> &calendar = key.rule.window_ends_us;
    const bool may_be_empty = key.settles || (key.has_leases && key.times > 1);
    const Grant *last = nullptr;
    int64_t last_end = 0;
    for (const Grant &grant : key.grants) {
        if (grant.window_ends_us == 0) {
            continue;
        }
        const int64_t end = grant.window_ends_us + grant.redis_ahead_us;
        int64_t begin = end - key.rule.window_us;
        if (!calendar.empty()) {
            const auto found = std::ranges::lower_bound(calendar, end);
            if (found == calendar.end() || *found != end) {
                return "a window that no calendar has" + at(grant);
            }
            begin = found == calendar.begin() ? 0 : *std::prev(found);
        }
        if (key.rule.is_aligned && end % key.rule.window_us != 0) {
            return "a window that is not aligned" + at(grant);
        }
        const bool may_begin =
            last == nullptr || may_be_empty || begin >= last_end || grant.time_us == last->time_us;
        if (!may_begin && end != last_end) {
            return "a window began" + at(grant) + ", when the one before had not ended";
        }
        last = &grant;
        last_end = end;
    }
    return std::nullopt;
}

/// A window that slides counts what the one before has granted by how much of it would still be in
/// a window that ends now. That cannot be told from outside where numbers change, units are given
/// back, or Redis's clock steps back.
std::optional<std::string> judge_sliding_windows(const JudgedKey &key, const Numbers &numbers) {
    const auto is_other = [&](const Grant &grant) {
        return grant.redis_ahead_us != key.grants.front().redis_ahead_us;
    };
    if (key.settles || key.rule.shards > 1 || !numbers.are_always_the_same() ||
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

} // namespace

std::optional<std::string> judge_sums_of_windows(const JudgedKey &key) {
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

std::optional<std::string> judge_windows(const JudgedKey &key) {
    const Numbers numbers(key);
    std::optional<std::string> wrong;
    if (key.rule.algorithm == "fixed_window") {
        wrong = judge_fixed_windows(key, numbers);
        wrong = wrong ? wrong : judge_ends_of_fixed_windows(key);
    } else if (key.rule.algorithm == "sliding_window") {
        wrong = judge_sliding_windows(key, numbers);
    }
    return wrong ? wrong : judge_sums_of_windows(key);
}

} // namespace simulation
