// Redis keys: what a key was made from can be read back from it, so no two give the same; and
// whatever clients send, it is one hash tag of printable characters.

#include "rate_limit/rule/shards.hpp"
#include "rate_limit/text/key.hpp"
#include "rules.hpp"
#include "targets.hpp"

#include <openssl/sha.h>

#include <string>
#include <tuple>

namespace fuzz {
namespace {

using rate_limit::Rule;

constexpr std::string_view name_characters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-";

std::string take_name(Input &input, size_t least) {
    std::string name(input.number(least, rate_limit::longest_name), 'n');
    for (char &c : name) {
        c = input.empty() ? c : input.one_of(name_characters);
    }
    return name;
}

/// What the directive takes.
std::string take_prefix(Input &input) {
    std::string prefix(input.text(rate_limit::longest_prefix));
    for (char &c : prefix) {
        c = c > ' ' && c <= '~' && c != '{' && c != '}' ? c : ':';
    }
    return prefix;
}

/// All that makes a Redis key.
struct Parts {
    std::string prefix;
    Rule rule;
    std::string client_key;
    uint64_t shard = 0; // where there are several

    auto tie() const {
        return std::tie(prefix, rule.zone, rule.quota.algorithm, rule.quota.window,
                        rule.explicit_name, rule.shards, client_key, shard);
    }
};

void take_rule(Input &input, Parts &parts) {
    parts.prefix = take_prefix(input);
    parts.rule.zone = take_name(input, 1);
    parts.rule.quota.algorithm = input.one_of(rate_limit::all_algorithms);
    parts.rule.quota.window = std::chrono::milliseconds(
        input.number(1, static_cast<uint64_t>(rate_limit::longest_window.count())));
    parts.rule.explicit_name = take_name(input, 0);
}

std::string redis_key(const Parts &parts) {
    rate_limit::RedisKeyBuffer out;
    const rate_limit::KeyFormat format(parts.prefix, parts.rule);
    return std::string(parts.rule.shards > 1 ? format.write(parts.client_key, parts.shard, out)
                                             : format.write(parts.client_key, out));
}

std::string hex(std::string_view bytes, std::string_view digits) {
    std::string text;
    for (const char c : bytes) {
        text += digits[static_cast<unsigned char>(c) / 16];
        text += digits[static_cast<unsigned char>(c) % 16];
    }
    return text;
}

std::string percent_encoded(std::string_view key) {
    constexpr std::string_view encoded = "{}%";
    std::string text;
    for (const char &c : key) {
        const bool is_plain = c > ' ' && c <= '~' && encoded.find(c) == std::string_view::npos;
        text += is_plain ? std::string(1, c) : "%" + hex({&c, 1}, "0123456789ABCDEF");
    }
    return text;
}

std::string digest_of(std::string_view key) {
    unsigned char hash[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char *>(key.data()), key.size(), hash);
    return "%" + hex({reinterpret_cast<const char *>(hash), sizeof(hash)}, "0123456789abcdef");
}

void take_shard(Input &input, Parts &parts) {
    parts.rule.shards = input.number(1, rate_limit::most_shards);
    parts.shard = input.number(0, parts.rule.shards - 1);
}

std::string take_client_key(Input &input) {
    std::string key(input.text(255));
    if (input.flag()) {
        const size_t size = input.number(0, 400);
        key.append(size, static_cast<char>(input.number(0, 255)));
    }
    return key;
}

/// The client key that would, percent-encoded, read like the digest of another.
std::string spelled_digest(std::string_view key) {
    const std::string digest = digest_of(key);
    const char first = static_cast<char>(std::stoul(digest.substr(1, 2), nullptr, 16));
    return first + digest.substr(3);
}

bool looks_like_a_digest(std::string_view text) {
    return text.size() == 65 && text.front() == '%' &&
           text.find_first_not_of("0123456789abcdef", 1) == std::string_view::npos;
}

/// Reads the parts back, from the left.
void require_readable(const Parts &parts, std::string_view key) {
    const auto take = [&key](std::string_view expected) {
        require(key.starts_with(expected), "the parts stand in their order");
        key.remove_prefix(expected.size());
    };
    take(parts.prefix);
    take("{" + parts.rule.zone + ":");
    const std::string encoded = percent_encoded(parts.client_key);
    const bool is_digested = encoded.size() > 128 || looks_like_a_digest(encoded);
    take(is_digested ? digest_of(parts.client_key) : encoded);
    if (parts.rule.shards > 1) {
        take("%#" + std::to_string(parts.shard) + "/" + std::to_string(parts.rule.shards));
    }
    take("}:" + std::string(to_string(parts.rule.quota.algorithm)) + ":");
    take(std::to_string(parts.rule.quota.window.count()));
    if (!parts.rule.explicit_name.empty()) {
        take(":" + parts.rule.explicit_name);
    }
    require(key.empty(), "nothing follows");
}

void require_one_hash_tag(std::string_view key) {
    const size_t begin = key.find('{');
    const size_t end = key.find('}');
    require(begin != std::string_view::npos && end != std::string_view::npos && begin + 1 < end,
            "there is a hash tag that is not empty");
    require(key.find_first_of("{}", begin + 1) == end &&
                key.find_first_of("{}", end + 1) == std::string_view::npos,
            "there is one hash tag");
    for (const char c : key) {
        require(c > ' ' && c <= '~', "all characters are printable");
    }
}

} // namespace

void keys(Input input) {
    Parts parts;
    take_rule(input, parts);
    parts.client_key = take_client_key(input);
    Parts other = parts;
    if (input.flag()) {
        take_rule(input, other);
    }
    if (input.flag()) {
        other.client_key = input.flag() ? take_client_key(input) : spelled_digest(parts.client_key);
    }
    take_shard(input, parts);
    take_shard(input, other);
    const std::string key = redis_key(parts);
    const std::string other_key = redis_key(other);
    require_readable(parts, key);
    require_readable(other, other_key);
    require_one_hash_tag(key);
    require((other_key == key) == (other.tie() == parts.tie()),
            "keys are the same where all their parts are");
}

} // namespace fuzz
