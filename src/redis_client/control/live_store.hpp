// What operators have set, as Redis stores it: overrides, resets, and the rules that hosts have
// configured. Here are the commands that write and read it, and their replies. All keys of a
// backend are `<prefix>{live}:...`, so that they are in one hash slot; no counter's key has this
// tag, for theirs hold a colon. lua/live_write.lua says what is under them.
//
// A record's name in Redis is a kind and what it is about, with spaces between:
//
//     K <zone> <encoded key>          what holds for a client
//     KR <zone> <encoded key> <rule>  what holds for a client at a rule
//     R <zone> <rule>                 what holds for all clients at a rule
//     X <zone> <encoded key>          the last reset of a client
#pragma once

#include "rate_limit/rule/rule.hpp"
#include "rate_limit/tables/live_limits.hpp"
#include "redis_client/io/world.hpp"
#include "redis_client/wire/byte_queue.hpp"
#include "redis_client/wire/reply_tree.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {

/// What a record is about: an override of a client, of a client at a rule or of a rule, or a reset
/// of a client. A reset has no rule.
struct LiveName {
    std::string_view zone;
    std::string_view encoded_key; // as encode_client_key() writes it; empty: for all clients
    std::string_view rule;        // empty: for all rules of the zone
    bool is_reset = false;

    bool operator==(const LiveName &) const = default;
};

/// An override as lists and answers show it.
struct LiveOverride {
    rate_limit::Override what;
    std::chrono::microseconds updated_at{0}; // by Redis's clock
    std::string by;                          // who wrote it, as `address user`
    std::string note;
};

/// What an operator wants to be written.
struct LiveOrder {
    rate_limit::Override what;                           // its expires_at is not used
    std::optional<std::chrono::microseconds> expires_in; // none: it holds until it is deleted
    std::string_view by;                                 // cut at longest_live_text bytes
    std::string_view note;                               // the same
};

inline constexpr size_t longest_live_text = 128;

/// What Redis has written.
struct LiveWritten {
    std::chrono::microseconds time;       // of Redis
    bool is_written;                      // false: there was no override to be deleted
    std::chrono::microseconds expires_at; // 0: never
};

/// What Redis has of the names that were looked up.
struct LiveLookup {
    std::chrono::microseconds time;                     // of Redis
    std::vector<std::optional<LiveOverride>> overrides; // for each name the one that holds, if any
};

/// What a store of records says of itself.
struct LiveHead {
    uint64_t epoch;   // a random number of this store, never 0
    uint64_t version; // of the last record
    uint64_t floor;   // records up to this version may have been purged

    bool operator==(const LiveHead &) const = default;
};

/// How much of a store a host knows. An epoch of 0 is no store.
struct LiveKnown {
    uint64_t epoch = 0;
    uint64_t version = 0;

    bool operator==(const LiveKnown &) const = default;
};

/// A record as Redis has it, so that it can be written back.
struct LiveRecord {
    std::string_view name;
    std::string_view words; // but for the version
};

/// A record that has changed.
struct LiveChange {
    LiveName name;     // refers to the reply
    LiveRecord record; // the same
    /// As which it was written. It has a later one in the store if it was written back.
    uint64_t version = 0;
    bool is_tombstone = false; // the override was deleted
    LiveOverride override;     // of an override
};

/// A record that a store has lost.
struct LiveLost {
    LiveRecord record;
    uint64_t version; // as which it was written
};

/// The changes since some version.
struct LivePage {
    std::chrono::microseconds time;  // of Redis
    std::optional<LiveHead> head;    // none: there is no store
    std::optional<uint64_t> next;    // the version to go on from; none: there are no more
    bool is_complete = false;        // false: Redis has lost a part of the store, or its head
    bool is_readable = true;         // false: a record of the page is lost, or is none of ours
    std::vector<LiveChange> changes; // by ascending versions
};

/// Where hosts say which counters they have configured. Hosts of versions up to 0.2 delete from the
/// first one what they cannot read.
enum class Registry : uint8_t {
    of_lengths,   // of windows of one length
    of_calendars, // of a calendar's windows
};

/// A counter that hosts have configured for a zone.
struct RegisteredCounter {
    std::string_view name; // as rate_limit::counter_name() gives it; refers to the reply
    uint64_t shards;
};

/// Some of the counters that hosts have configured.
struct CounterPage {
    uint64_t next; // the cursor to go on from; 0: there are no more
    std::vector<RegisteredCounter> counters;
};

class LiveStore {
  public:
    /// How many records a page looks at, at most: so many that neither Redis nor a host is held up.
    static constexpr size_t records_of_page = 250;

    /// How long after its last registration, and after its window, a counter is forgotten.
    static constexpr std::chrono::hours registered_for{2};

    /// `prefix` is that of the backend's keys.
    explicit LiveStore(std::string_view prefix);

    /// The hash slot of all its keys.
    uint16_t hash_slot() const { return hash_slot_; }

    // Each function writes one command, and returns false if memory ran out; then nothing was
    // written. Those that write a record are given a new_epoch(), for the store that this may make,
    // and what the host knows: the record is newer than that.

    /// Sets an override. It replaces the one of the same name.
    bool write_put(ByteQueue &out, const LiveName &name, const LiveOrder &order, uint64_t epoch,
                   const LiveKnown &known) const;
    bool write_delete(ByteQueue &out, const LiveName &name, std::string_view by, uint64_t epoch,
                      const LiveKnown &known) const;
    /// Says that a client was reset.
    bool write_reset(ByteQueue &out, const LiveName &name, std::string_view by, uint64_t epoch,
                     const LiveKnown &known) const;
    /// Writes records back that the store of this epoch has lost, unless it has newer ones.
    bool write_back(ByteQueue &out, uint64_t epoch, std::span<const LiveLost> lost) const;
    /// Asks for the records of some names.
    bool write_lookup(ByteQueue &out, std::span<const LiveName> names) const;
    bool write_head_query(ByteQueue &out) const;
    /// Ask how many names the store has, and how many records. There are as many of both.
    bool write_name_count_query(ByteQueue &out) const;
    bool write_record_count_query(ByteQueue &out) const;
    /// Asks for what has changed since the version, in one zone if one is named. Beginning with
    /// version 0 and going on from each page's `next` gives all records.
    bool write_changes_query(ByteQueue &out, uint64_t since, std::string_view zone = {}) const;
    /// Registers the counters of these rules, which all belong there, at a time of Redis's clock.
    bool write_registration(ByteQueue &out, Registry registry,
                            std::span<const rate_limit::Rule *const> rules,
                            std::chrono::microseconds redis_now) const;
    /// Asks a registry for the counters of a zone. Beginning with cursor 0 and going on from each
    /// page's `next` gives all of them, some perhaps twice. Those that no host registers any more
    /// are forgotten on the way, which is all that is done without a zone.
    bool write_counters_query(ByteQueue &out, Registry registry, uint64_t cursor,
                              std::string_view zone = {}) const;

  private:
    bool write_record(ByteQueue &out, const LiveName &name, std::string_view action,
                      const LiveOrder &order, uint64_t epoch, const LiveKnown &known) const;

    std::string head_;
    std::string log_;
    std::string data_;
    std::string expiry_;
    std::array<std::string, 2> rules_; // by Registry
    uint16_t hash_slot_;
};

/// Draws the epoch of a store.
uint64_t new_epoch(World &world);

// These functions read a reply that is no error. They return nothing if it is not such a reply.

/// Asks Redis for its time. Returns false if memory ran out.
bool write_time_query(ByteQueue &out);
std::optional<std::chrono::microseconds> read_time(ReplyView reply);
/// Reads the reply to a put, a delete or a reset.
std::optional<LiveWritten> read_written(ReplyView reply);
/// Reads the reply to write_back(). Returns false if the store is another one.
bool read_written_back(ReplyView reply);
std::optional<LiveLookup> read_lookup(ReplyView reply);
/// Reads a head. There is none if the reply is nil, or if somebody else has written it.
std::optional<LiveHead> read_head(ReplyView reply);
/// These two read a page. Records that nobody of ours wrote are left out, and so are those that are
/// lost.
std::optional<LivePage> read_changes(ReplyView reply);
std::optional<CounterPage> read_counters(ReplyView reply);

} // namespace redis_client
