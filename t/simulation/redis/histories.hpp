// Which data a Redis has, for the auditor: each hash slot's data came into being once, empty or as
// a copy of other data.
#pragma once

#include "simulation/timeline.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace simulation {

class Histories {
  public:
    /// From then on all keys belong to this history.
    void set_all(Time since, size_t history) { all_.push_back({since, std::nullopt, history}); }
    /// From then on the keys of this hash slot do.
    void set(uint16_t hash_slot, Time since, size_t history) {
        all_.push_back({since, hash_slot, history});
    }

    size_t at(uint16_t hash_slot, Time when) const {
        for (auto one = all_.rbegin(); one != all_.rend(); ++one) {
            if (one->since <= when && one->hash_slot.value_or(hash_slot) == hash_slot) {
                return one->history;
            }
        }
        return 0;
    }
    /// The hash slots whose history is not that of all others then, in the order of their change.
    std::vector<uint16_t> special_at(Time when) const {
        std::vector<uint16_t> special;
        for (const Entry &one : all_) {
            if (one.since > when) {
                break;
            }
            if (one.hash_slot) {
                special.push_back(*one.hash_slot);
            } else {
                special.clear();
            }
        }
        return special;
    }
    /// That of all hash slots that have none of their own.
    size_t common_at(Time when) const {
        size_t history = 0;
        for (const Entry &one : all_) {
            history = one.since <= when && !one.hash_slot ? one.history : history;
        }
        return history;
    }

  private:
    struct Entry {
        Time since;
        std::optional<uint16_t> hash_slot; // none: all of them
        size_t history;
    };
    std::vector<Entry> all_; // in the order of their times
};

} // namespace simulation
