#include "key.hpp"

#include "append.hpp"

#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace rate_limit {

namespace {

constexpr size_t digest_size = 1 + 2 * SHA256_DIGEST_LENGTH;

constexpr bool is_plain(unsigned char byte) {
    return byte >= '!' && byte <= '~' && byte != '{' && byte != '}' && byte != '%';
}

/// The percent-encoded key, or nothing where it does not fit.
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

/// A client that sends the byte 0x12 and 62 hex digits would otherwise get the counter of the
/// long key whose digest begins with 12.
bool reads_like_a_digest(std::string_view encoded) {
    const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    return encoded.size() == digest_size && encoded.front() == '%' &&
           std::ranges::all_of(encoded.substr(1), is_digit);
}

std::string_view digest(std::string_view client_key, std::span<char, 128> out) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
    SHA256(reinterpret_cast<const unsigned char *>(client_key.data()), client_key.size(),
           hash.data());
    size_t size = 0;
    out[size++] = '%';
    for (const unsigned char byte : hash) {
        out[size++] = digits[byte >> 4];
        out[size++] = digits[byte & 15];
    }
    return {out.data(), size};
}

} // namespace

std::string_view encode_client_key(std::string_view client_key, std::span<char, 128> out) {
    const auto encoded = percent_encode(client_key, out);
    return encoded && !reads_like_a_digest(*encoded) ? *encoded : digest(client_key, out);
}

KeyFormat::KeyFormat(std::string_view prefix, const Rule &rule)
    : head_(std::string(prefix) + "{" + rule.zone + ":"),
      tail_("}:" + std::string(to_string(rule.quota.algorithm)) + ":" +
            std::to_string(rule.quota.window.count())) {
    if (!rule.explicit_name.empty()) {
        tail_ += ":" + rule.explicit_name;
    }
    shard_tail_ = "/" + std::to_string(rule.shards) + tail_;
}

std::string_view KeyFormat::write(std::string_view client_key, RedisKeyBuffer &out) const {
    char *end = write_head(client_key, out);
    end = append(end, tail_);
    return {out.data(), static_cast<size_t>(end - out.data())};
}

std::string_view KeyFormat::write(std::string_view client_key, uint64_t shard,
                                  RedisKeyBuffer &out) const {
    constexpr std::string_view shard_sign = "%#";
    char *end = write_head(client_key, out);
    end = append(end, shard_sign);
    end = std::to_chars(end, out.data() + out.size(), shard).ptr;
    end = append(end, shard_tail_);
    return {out.data(), static_cast<size_t>(end - out.data())};
}

/// Up to the client key; returns its end.
char *KeyFormat::write_head(std::string_view client_key, RedisKeyBuffer &out) const {
    char *end = append(out.data(), head_);
    return end + encode_client_key(client_key, std::span<char, 128>(end, 128)).size();
}

} // namespace rate_limit
