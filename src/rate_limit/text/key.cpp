#include "rate_limit/text/key.hpp"

#include "rate_limit/text/text_writer.hpp"
#include "rate_limit/text/times_and_numbers.hpp"
#include "rate_limit/text/url_text.hpp"

#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>

namespace rate_limit {

namespace {

constexpr size_t digest_size = 1 + std::tuple_size_v<KeyDigest>;

/// Stands before the number of a shard.
constexpr std::string_view shard_sign = "%#";

constexpr bool is_plain(unsigned char byte) {
    return byte >= '!' && byte <= '~' && byte != '{' && byte != '}' && byte != '%';
}

/// Returns the percent-encoded key, or nothing if it does not fit into `out`.
std::optional<std::string_view> percent_encode(std::string_view client_key,
                                               std::span<char, 128> out) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    size_t size = 0;
    for (const char c : client_key) {
        const auto byte = static_cast<unsigned char>(c);
        if (is_plain(byte)) {
            if (size + 1 > out.size()) {
                return std::nullopt;
            }
            out[size++] = c;
        } else {
            if (size + 3 > out.size()) {
                return std::nullopt;
            }
            out[size++] = '%';
            out[size++] = digits[byte >> 4];
            out[size++] = digits[byte & 15];
        }
    }
    return std::string_view(out.data(), size);
}

std::string_view write_digest(std::string_view client_key, std::span<char, 128> out) {
    out[0] = '%';
    std::ranges::copy(digest_of(client_key), out.data() + 1);
    return {out.data(), digest_size};
}

} // namespace

KeyDigest digest_of(std::string_view client_key) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{}; // SHA256() leaves it alone if it fails
    SHA256(reinterpret_cast<const unsigned char *>(client_key.data()), client_key.size(),
           hash.data());
    KeyDigest digest;
    char *at = digest.data();
    for (const unsigned char byte : hash) {
        *at++ = digits[byte >> 4];
        *at++ = digits[byte & 15];
    }
    return digest;
}

std::string_view encode_client_key(std::string_view client_key, std::span<char, 128> out) {
    const auto encoded = percent_encode(client_key, out);
    // A key that reads like a digest is replaced by its own: otherwise a client that sends the byte
    // 0x12 and 62 hex digits would get the counter of a long key whose digest begins with 12.
    return encoded && !digest_in(*encoded) ? *encoded : write_digest(client_key, out);
}

std::optional<std::string_view> digest_in(std::string_view encoded_key) {
    const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    const bool is_digest = encoded_key.size() == digest_size && encoded_key.front() == '%' &&
                           std::ranges::all_of(encoded_key.substr(1), is_digit);
    return is_digest ? std::optional(encoded_key.substr(1)) : std::nullopt;
}

std::optional<std::string_view> decode_client_key(std::string_view encoded_key,
                                                  std::span<char, 128> out) {
    if (encoded_key.size() > out.size()) {
        return std::nullopt;
    }
    const auto decoded = decode_percent(encoded_key, out);
    std::array<char, 128> again;
    const bool is_ours = decoded && encode_client_key(*decoded, again) == encoded_key;
    return is_ours ? decoded : std::nullopt;
}

std::string counter_name(const Rule &rule) {
    std::string name = std::string(to_string(rule.quota.algorithm)) + ":" + rule.window_name();
    if (!rule.explicit_name.empty()) {
        name += ":" + rule.explicit_name;
    }
    return name;
}

bool is_counter_name(std::string_view text) {
    constexpr size_t longest_algorithm = 24; // other hosts may have one that this version lacks
    const std::string_view algorithm = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(algorithm.size() + 1, text.size()));
    const std::string_view window = text.substr(0, text.find(':'));
    text.remove_prefix(window.size());
    const auto longest = static_cast<uint64_t>(longest_window.count());
    const bool is_length = parse_whole_number(window, longest) && !window.starts_with('0');
    return is_name(algorithm) && algorithm.size() <= longest_algorithm &&
           (is_length || is_calendar_name(window)) &&
           (text.empty() || (text.front() == ':' && is_name(text.substr(1))));
}

KeyFormat::KeyFormat(std::string_view prefix, std::string_view zone, std::string_view counter_name,
                     uint64_t shards)
    : head_(std::string(prefix) + "{" + std::string(zone) + ":"),
      tail_("}:" + std::string(counter_name)),
      shard_tail_("/" + std::to_string(shards) + tail_) {}

std::string_view KeyFormat::write(std::string_view client_key, RedisKeyBuffer &out) const {
    char *const key = append(out.data(), head_);
    return write_tail(key + encode_client_key(client_key, std::span<char, 128>(key, 128)).size(),
                      out);
}

std::string_view KeyFormat::write(std::string_view client_key, uint64_t shard,
                                  RedisKeyBuffer &out) const {
    char *const key = append(out.data(), head_);
    return write_shard(key + encode_client_key(client_key, std::span<char, 128>(key, 128)).size(),
                       shard, out);
}

std::string_view KeyFormat::write_encoded(std::string_view encoded_key, RedisKeyBuffer &out) const {
    return write_tail(append(append(out.data(), head_), encoded_key), out);
}

std::string_view KeyFormat::write_encoded(std::string_view encoded_key, uint64_t shard,
                                          RedisKeyBuffer &out) const {
    return write_shard(append(append(out.data(), head_), encoded_key), shard, out);
}

std::string_view KeyFormat::encoded_key_of(std::string_view redis_key) const {
    const std::string_view rest = redis_key.substr(head_.size());
    const std::string_view in_braces = rest.substr(0, rest.find('}'));
    return in_braces.substr(0, in_braces.find(shard_sign));
}

/// Writes what follows the client key, which ends at `end`, and returns the whole.
std::string_view KeyFormat::write_tail(char *end, RedisKeyBuffer &out) const {
    end = append(end, tail_);
    return {out.data(), static_cast<size_t>(end - out.data())};
}

std::string_view KeyFormat::write_shard(char *end, uint64_t shard, RedisKeyBuffer &out) const {
    end = append(end, shard_sign);
    end = std::to_chars(end, out.data() + out.size(), shard).ptr;
    end = append(end, shard_tail_);
    return {out.data(), static_cast<size_t>(end - out.data())};
}

} // namespace rate_limit
