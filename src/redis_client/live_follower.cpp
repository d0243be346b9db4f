#include "live_follower.hpp"

namespace redis_client {

void LiveFollower::begin_anew(LiveKnown known) {
    known_ = known;
    needs_all_ = true;
}

/// Whether changes since the known version do not tell all.
bool LiveFollower::has_lost(const LiveHead &head) const {
    return head.epoch != known_.epoch || head.version < known_.version ||
           head.floor > known_.version;
}

std::optional<uint64_t> LiveFollower::take_head(const std::optional<LiveHead> &head) {
    if (!head) {
        if (known_.epoch != 0) {
            callbacks_.on_lost_store();
            callbacks_.on_missed_resets();
        }
        if (known_.epoch != 0 || needs_all_) {
            callbacks_.on_begin();
            callbacks_.on_end();
        }
        known_ = {};
        needs_all_ = false;
        return std::nullopt;
    }
    if (needs_all_ || has_lost(*head)) {
        return begin(*head);
    }
    if (head->version == known_.version) {
        return std::nullopt;
    }
    return since_ = known_.version;
}

std::optional<uint64_t> LiveFollower::begin(const LiveHead &head) {
    if (known_.epoch != 0 && (head.epoch != known_.epoch || head.floor > known_.version)) {
        callbacks_.on_missed_resets();
    }
    callbacks_.on_begin();
    needs_all_ = true;
    epoch_ = head.epoch;
    return since_ = 0;
}

std::optional<uint64_t> LiveFollower::take_page(const LivePage &page) {
    const bool is_of_all = needs_all_;
    if (!page.head || (is_of_all ? page.head->epoch != epoch_ : has_lost(*page.head))) {
        return take_head(page.head);
    }
    for (const LiveChange &change : page.changes) {
        callbacks_.on_change(change);
    }
    if (is_of_all && since_ == 0) {
        floor_ = page.head->floor;
    }
    if (page.next) {
        since_ = *page.next;
        if (!is_of_all) {
            known_.version = since_;
        }
        return since_;
    }
    known_ = {.epoch = page.head->epoch, .version = page.head->version};
    if (is_of_all) {
        callbacks_.on_end();
        // A record may have been read, then replaced by one that was purged before its page came.
        needs_all_ = page.head->floor != floor_;
    }
    return std::nullopt;
}

} // namespace redis_client
