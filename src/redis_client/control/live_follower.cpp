#include "redis_client/control/live_follower.hpp"

namespace redis_client {

void LiveFollower::begin_anew(LiveKnown known) {
    known_ = newest_ = known;
    needs_all_ = true;
    is_whole_ = true;
}

void LiveFollower::forget() {
    copy_.clear();
    copied_ = {};
}

/// Whether changes since the known version do not tell all.
bool LiveFollower::has_lost(const LiveHead &head) const {
    return head.epoch != known_.epoch || head.version < known_.version ||
           head.floor > known_.version;
}

LiveStep LiveFollower::take_head(const std::optional<LiveHead> &head, bool looks_complete) {
    if (!head && looks_complete) {
        if (known_.epoch != 0 || needs_all_ || !is_whole_) {
            callbacks_.on_begin(LiveReading::of_store);
            end_of_lost_store();
        }
        return {};
    }
    if (!head) { // the rest of the store is read once
        return is_whole_ ? begin(head) : LiveStep{};
    }
    if (needs_all_ || has_lost(*head)) {
        return begin(head);
    }
    if (has_lost_newest_ && head->version != known_.version) { // there is a new write
        newest_ = known_;
        return begin(head);
    }
    // What looks damaged, or no longer so, is looked at.
    const bool looked_complete = is_whole_ || was_complete_;
    if (head->version != known_.version || looks_complete != looked_complete) {
        return read_on();
    }
    return is_whole_ ? end_of_changes() : LiveStep{};
}

LiveStep LiveFollower::read_on() {
    is_readable_ = true;
    since_ = known_.version;
    return {.what = LiveStep::What::read, .since = since_};
}

LiveStep LiveFollower::begin(const std::optional<LiveHead> &head) {
    if (known_.epoch != 0 && head && has_lost(*head)) {
        callbacks_.on_missed_resets();
    }
    epoch_ = head ? head->epoch : 0;
    if (head && epoch_ != copied_.epoch) {
        forget();
        copied_.epoch = epoch_;
    }
    is_older_ = head && epoch_ == newest_.epoch && head->version < newest_.version &&
                copied_.version < newest_.version;
    callbacks_.on_begin(is_older_ ? LiveReading::of_older_store : LiveReading::of_store);
    copy_.begin_reading();
    needs_all_ = true;
    ends_all_ = false;
    is_readable_ = true;
    since_ = 0;
    return {.what = LiveStep::What::read, .since = since_};
}

LiveStep LiveFollower::take_page(const LivePage &page) {
    const uint64_t epoch = page.head ? page.head->epoch : 0;
    if (needs_all_ ? epoch != epoch_ : !page.head || has_lost(*page.head)) {
        return begin(page.head);
    }
    for (const LiveChange &change : page.changes) {
        // That a client was reset once more does no harm, and that it was not would.
        if (copy_.take(change) || change.name.is_reset) {
            callbacks_.on_change(change);
        }
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
    return {.what = LiveStep::What::read, .since = since_};
}

LiveStep LiveFollower::take_written_back(bool is_same_store) {
    if (!is_same_store) {
        needs_all_ = true;
        return {};
    }
    copy_.wrote_back(LiveStore::records_of_page);
    return read_on(); // they come as changes
}

/// All changes are known. If the store was not whole and may be so again, all is read.
LiveStep LiveFollower::end(const LivePage &page) {
    known_.version = page.head->version;
    if (!page.is_complete || !is_readable_) {
        note_damage(page);
        return {};
    }
    if (is_whole_) {
        return end_of_changes();
    }
    const bool may_be_whole = !was_complete_ || known_.version != damaged_version_;
    return may_be_whole ? begin(page.head) : LiveStep{};
}

LiveStep LiveFollower::end_of_all(const LivePage &page) {
    needs_all_ = false;
    if (!page.head && page.is_complete) {
        end_of_lost_store();
        return {};
    }
    if (page.head) {
        known_ = {.epoch = page.head->epoch, .version = page.head->version};
    }
    if (!page.is_complete || !is_readable_) {
        note_damage(page);
        callbacks_.on_missed_resets();
        return {};
    }
    is_whole_ = true;
    ends_all_ = true;
    floor_changed_ = page.head->floor != floor_;
    copy_.drop_purged(page.head->floor);
    return end_of_changes();
}

/// What the store has is known. A synchronisation ends once the store has got back what it lacks.
LiveStep LiveFollower::end_of_changes() {
    if (copy_.is_any_missing()) {
        return {.what = LiveStep::What::write_back};
    }
    has_lost_newest_ = is_older_ && newest_.version > known_.version;
    if (has_lost_newest_) {
        return {};
    }
    if (is_older_) { // somebody has written meanwhile: all is read once more
        newest_ = known_;
        needs_all_ = true;
        return {};
    }
    newest_ = copied_ = known_;
    if (ends_all_) {
        ends_all_ = false;
        callbacks_.on_end();
        // A record may have been read, then replaced by one that was purged before its page came.
        needs_all_ = floor_changed_;
    }
    return {};
}

void LiveFollower::end_of_lost_store() {
    if (known_.epoch != 0) {
        callbacks_.on_lost_store();
        callbacks_.on_missed_resets();
    }
    callbacks_.on_end();
    forget();
    known_ = newest_ = {};
    needs_all_ = false;
    has_lost_newest_ = false;
    is_whole_ = true;
}

void LiveFollower::note_damage(const LivePage &page) {
    is_whole_ = false;
    was_complete_ = page.is_complete;
    damaged_version_ = known_.version;
    if (newest_.epoch != known_.epoch || newest_.version < known_.version) {
        newest_ = known_;
    }
}

} // namespace redis_client
