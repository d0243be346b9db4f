// The Redis key of a rule's counter for one client key:
//
//     <prefix>{<zone>:<key>}:<algorithm>:<window in ms>[:<name>]
//
// The braces are Redis Cluster's hash tag: all rules of a zone and key live in one slot. But where
// a counter is spread over shards, those are to be in different ones:
//
//     <prefix>{<zone>:<key>%#<shard>/<shards>}:<algorithm>:<window in ms>[:<name>]
//
// No client key can stand for a shard: in what is percent-encoded, and in digests, a hex digit
// follows each `%`.
#pragma once

#include "rule.hpp"

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace rate_limit {

inline constexpr size_t longest_prefix = 64;

/// Room for the longest Redis key: prefix, zone, encoded key (128), algorithm, window and name
/// with their separators.
using RedisKeyBuffer = std::array<char, longest_prefix + longest_name + 128 + longest_name + 64>;

class KeyFormat {
  public:
    /// `prefix` has at most `longest_prefix` bytes and no braces.
    KeyFormat(std::string_view prefix, const Rule &rule);

    /// Writes the Redis key of a client key of any bytes and any length; returns its part of
    /// `out`. Two client keys never give one Redis key, short of a SHA-256 collision.
    std::string_view write(std::string_view client_key, RedisKeyBuffer &out) const;

    /// The same of one of a rule's shards, of which there are several.
    std::string_view write(std::string_view client_key, uint64_t shard, RedisKeyBuffer &out) const;

  private:
    char *write_head(std::string_view client_key, RedisKeyBuffer &out) const;

    std::string head_;       // up to the client key
    std::string tail_;       // from the closing brace on
    std::string shard_tail_; // from behind the shard's number on
};

/// The 64 lower-case hex digits of a client key's SHA-256.
using KeyDigest = std::array<char, 64>;
KeyDigest digest_of(std::string_view client_key);

/// What stands for a client key inside the braces: bytes outside `!`..`~`, braces and `%` are
/// percent-encoded. Where that would take more than 128 bytes, or would itself read like a
/// digest, it is `%` and the 64 lower-case hex digits of the key's SHA-256.
/// Returns its part of `out`.
std::string_view encode_client_key(std::string_view client_key, std::span<char, 128> out);

} // namespace rate_limit
