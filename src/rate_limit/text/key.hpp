// The Redis key of a rule's counter for one client key is
//
//     <prefix>{<zone>:<key>}:<algorithm>:<window>[:<name>]
//
// where the window is its length in ms, or a calendar's: `month`, `month-15@Europe/Berlin`. The
// braces are the hash tag of Redis Cluster: they put all rules of a zone and a key into one hash
// slot. Shards are to be in different hash slots, so the Redis key of a shard is
//
//     <prefix>{<zone>:<key>%#<shard>/<shards>}:<algorithm>:<window>[:<name>]
//
// No client key looks like that of a shard: in a percent-encoded key, and in a digest, a hex digit
// follows each `%`.
//
// The block of a client is in the same hash slot, under the counter's key and
//
//     <key of the counter>#block
//
// and so is what refunds keep of a bucket's past, under
//
//     <key of the counter>#past
//
// No counter has such a key: no name has a `#`.
#pragma once

#include "rate_limit/rule/rule.hpp"

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rate_limit {

inline constexpr size_t longest_prefix = 64;

/// Follows the Redis key of a counter in that of the client's block.
inline constexpr std::string_view block_suffix = "#block";

/// Follows the Redis key of a bucket in that of its past, which refunds keep: lua/bucket.lua.
inline constexpr std::string_view past_suffix = "#past";

/// Returns what stands behind the braces: `<algorithm>:<window>[:<name>]`.
std::string counter_name(const Rule &rule);
/// Whether a text may be such a name, for which a RedisKeyBuffer has room.
bool is_counter_name(std::string_view text);

/// Has room for the longest Redis key: a prefix, a zone, an encoded key of 128 bytes, a name, and
/// 88 bytes for an algorithm of 24, the longest window, `quarter-28@` with a time zone, shards, and
/// what stands between them.
using RedisKeyBuffer = std::array<char, longest_prefix + longest_name + 128 + longest_name + 88>;

class KeyFormat {
  public:
    /// `prefix` has at most `longest_prefix` bytes and no braces.
    KeyFormat(std::string_view prefix, const Rule &rule)
        : KeyFormat(prefix, rule.zone, counter_name(rule), rule.shards) {}
    /// The same, of a counter that a rule of another host has.
    KeyFormat(std::string_view prefix, std::string_view zone, std::string_view counter_name,
              uint64_t shards);

    /// Writes the Redis key of a client key, which may have any bytes and any length, and returns
    /// its part of `out`. Two client keys give one Redis key only if their SHA-256 are the same.
    std::string_view write(std::string_view client_key, RedisKeyBuffer &out) const;

    /// Writes the Redis key of one shard, for a rule that has several.
    std::string_view write(std::string_view client_key, uint64_t shard, RedisKeyBuffer &out) const;

    /// Do the same for a key as encode_client_key() writes it.
    std::string_view write_encoded(std::string_view encoded_key, RedisKeyBuffer &out) const;
    std::string_view write_encoded(std::string_view encoded_key, uint64_t shard,
                                   RedisKeyBuffer &out) const;

    /// Returns the encoded client key in a Redis key that one of these has written.
    std::string_view encoded_key_of(std::string_view redis_key) const;

  private:
    std::string_view write_tail(char *end, RedisKeyBuffer &out) const;
    std::string_view write_shard(char *end, uint64_t shard, RedisKeyBuffer &out) const;

    std::string head_;       // what stands before the client key
    std::string tail_;       // the closing brace and what follows it
    std::string shard_tail_; // what follows a shard's number
};

/// The 64 lower-case hex digits of a client key's SHA-256.
using KeyDigest = std::array<char, 64>;
KeyDigest digest_of(std::string_view client_key);

/// Writes what stands for a client key inside the braces, and returns its part of `out`. Bytes
/// outside `!`..`~`, braces and `%` are percent-encoded. If that takes more than 128 bytes, or
/// reads like a digest, `%` and the 64 lower-case hex digits of the key's SHA-256 are written
/// instead.
std::string_view encode_client_key(std::string_view client_key, std::span<char, 128> out);

/// Writes the client key that is encoded so, and returns its part of `out`. Returns nothing for a
/// digest, and for a text that encode_client_key() does not write.
std::optional<std::string_view> decode_client_key(std::string_view encoded_key,
                                                  std::span<char, 128> out);

/// Returns the 64 hex digits if the encoded key is a digest, or nothing.
std::optional<std::string_view> digest_in(std::string_view encoded_key);

} // namespace rate_limit
