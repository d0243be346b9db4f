#include "redis_client/control/live_follower.hpp"

namespace redis_client {

void LiveFollower::begin_anew(LiveKnown known) {
    known_ = known;
    needs_all_ = true;
    is_whole_ = true;
}

/// Whether changes since the known version do not tell all.
bool LiveFollower::has_lost(const LiveHead &head) const {
    return head.epoch != known_.epoch || head.version < known_.version ||
           head.floor > known_.version;
}

std::optional<uint64_t> LiveFollower::take_head(const std::optional<LiveHead> &head,
                                                bool looks_complete) {
    if (!head && looks_complete) {
        if (known_.epoch != 0 || needs_all_ || !is_whole_) {
            callbacks_.on_begin();
            end_of_lost_store();
        }
        return std::nullopt;
    }
    if (!head) { // the rest of the store is read once
        return is_whole_ ? begin(head) : std::nullopt;
    }
    if (needs_all_ || has_lost(*head)) {
        return begin(head);
    }
    // What looks damaged, or no longer so, is looked at.
    const bool looked_complete = is_whole_ || was_complete_;
    if (head->version == known_.version && looks_complete == looked_complete) {
        return std::nullopt;
    }
    return go_on_from_known();
}

uint64_t LiveFollower::go_on_from_known() {
    is_readable_ = true;
    return since_ = known_.version;
}

std::optional<uint64_t> LiveFollower::begin(const std::optional<LiveHead> &head) {
    if (known_.epoch != 0 && head && has_lost(*head)) {
        callbacks_.on_missed_resets();
    }
    callbacks_.on_begin();
    needs_all_ = true;
    is_readable_ = true;
    epoch_ = head ? head->epoch : 0;
    return since_ = 0;
}

std::optional<uint64_t> LiveFollower::take_page(const LivePage &page) {
    const uint64_t epoch = page.head ? page.head->epoch : 0;
    if (needs_all_ ? epoch != epoch_ : !page.head || has_lost(*page.head)) {
        return begin(page.head);
    }
    for (const LiveChange &change : page.changes) {
        callbacks_.on_change(change);
    }
    is_readable_ = is_readable_ && page.is_readable;
    if (needs_all_ && since_ == 0) {
        floor_ = page.head ? page.head->floor : 0;
    }
    if (!page.next) {
        return needs_all_ ? end_of_all(page) : end(page);
    }
    since_ = *page.next;
    if (!needs_all_) {
        known_.version = since_;
    }
    return since_;
}

/// All changes are known. If the store was not whole and may be so again, all is read.
std::optional<uint64_t> LiveFollower::end(const LivePage &page) {
    known_.version = page.head->version;
    if (!page.is_complete || !is_readable_) {
        note_damage(page);
        return std::nullopt;
    }
    const bool may_be_whole = !was_complete_ || known_.version != damaged_version_;
    return !is_whole_ && may_be_whole ? begin(page.head) : std::nullopt;
}

std::optional<uint64_t> LiveFollower::end_of_all(const LivePage &page) {
    needs_all_ = false;
    if (!page.head && page.is_complete) {
        end_of_lost_store();
        return std::nullopt;
    }
    if (page.head) {
        known_ = {.epoch = page.head->epoch, .version = page.head->version};
    }
    if (!page.is_complete || !is_readable_) {
        note_damage(page);
        callbacks_.on_missed_resets();
        return std::nullopt;
    }
    is_whole_ = true;
    callbacks_.on_end();
    // A record may have been read, then replaced by one that was purged before its page came.
    needs_all_ = page.head->floor != floor_;
    return std::nullopt;
}

void LiveFollower::end_of_lost_store() {
    if (known_.epoch != 0) {
        callbacks_.on_lost_store();
        callbacks_.on_missed_resets();
    }
    callbacks_.on_end();
    known_ = {};
    needs_all_ = false;
    is_whole_ = true;
}

void LiveFollower::note_damage(const LivePage &page) {
    is_whole_ = false;
    was_complete_ = page.is_complete;
    damaged_version_ = known_.version;
}

} // namespace redis_client
