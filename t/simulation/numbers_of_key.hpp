// The numbers by which the requests of a key were decided, and when a grant was, in words.
#pragma once

#include "simulation/judges.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace simulation {

__extension__ using Wide = __int128;

/// For so long hosts may have different numbers for a rule, around a change. Where the numbers of
/// all checks are known, it is only of some on their way that nobody knows the order.
inline int64_t of_two_minds_us(const JudgedKey &key) {
    return key.is_all_known ? 200'000 : 2'500'000;
}

/// What the smallest of the shards may grant that are in use.
inline uint64_t smallest_share(const AuditedRule &rule, uint64_t limit, uint64_t capacity) {
    const uint64_t units = rule.is_bucket() ? capacity : limit;
    const uint64_t shards = std::min({rule.shards, limit, units});
    return shards > 0 ? units / shards : 0;
}

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
        auto entry = std::ranges::lower_bound(all_, from_us, {}, &Entry::time_us);
        if (entry != all_.begin()) {
            --entry; // its numbers hold until the next check
        }
        for (; entry != all_.end() && entry->time_us <= until_us; ++entry) {
            largest = std::max(largest, (*entry).*number);
        }
        return largest;
    }

    std::vector<Entry> all_;
    bool is_same_ = true;
};

inline std::string at(const Grant &grant) {
    return " at " + std::to_string(grant.time_us);
}

} // namespace simulation
