#include "redis_client/control/live_copy.hpp"

#include <algorithm>
#include <utility>

namespace redis_client {

namespace {

std::chrono::microseconds end_of(const LiveChange &change) {
    const bool has_ended = change.is_tombstone || change.name.is_reset;
    return has_ended ? change.override.updated_at : change.override.what.expires_at;
}

} // namespace

void LiveCopy::begin_reading() {
    if (present_.size() > missing_.size()) {
        std::swap(present_, missing_);
    }
    missing_.merge(present_); // no name is in both
}

bool LiveCopy::take(const LiveChange &change) {
    const auto &[name, words] = change.record;
    auto present = present_.find(name);
    if (const auto missing = missing_.find(name); missing != missing_.end()) {
        present = present_.insert(missing_.extract(missing)).position;
    }
    if (present == present_.end()) {
        present_.emplace(name, Known{change.version, end_of(change), std::string(words)});
        return true;
    }
    if (present->second.version > change.version) {
        missing_.insert(present_.extract(present));
        return false;
    }
    present->second = {change.version, end_of(change), std::string(words)};
    return true;
}

void LiveCopy::drop_purged(uint64_t floor) {
    std::erase_if(missing_, [floor](const auto &one) { return one.second.version <= floor; });
}

std::vector<LiveLost> LiveCopy::missing(size_t most) const {
    std::vector<LiveLost> lost;
    lost.reserve(std::min(most, missing_.size()));
    for (const auto &[name, known] : missing_) {
        if (lost.size() == most) {
            break;
        }
        lost.push_back({.record = {.name = name, .words = known.words}, .version = known.version});
    }
    return lost;
}

void LiveCopy::wrote_back(size_t most) {
    for (; most > 0 && !missing_.empty(); --most) {
        present_.insert(missing_.extract(missing_.begin()));
    }
}

void LiveCopy::drop_ended(std::chrono::microseconds redis_now) {
    constexpr size_t most_looks = 1024;
    auto next = present_.upper_bound(looked_up_to_);
    for (size_t looks = 0; looks < most_looks && next != present_.end(); ++looks) {
        looked_up_to_ = next->first;
        const std::chrono::microseconds ended_at = next->second.ended_at;
        const bool is_over = ended_at.count() > 0 && ended_at + std::chrono::hours{1} <= redis_now;
        next = is_over ? present_.erase(next) : std::next(next);
    }
    if (next == present_.end()) {
        looked_up_to_.clear();
    }
}

void LiveCopy::clear() {
    present_.clear();
    missing_.clear();
    looked_up_to_.clear();
}

} // namespace redis_client
