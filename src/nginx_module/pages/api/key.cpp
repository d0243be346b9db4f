#include "nginx_module/pages/api/key.hpp"

#include "nginx_module/decisions/key_text.hpp"
#include "nginx_module/util.hpp"
#include "rate_limit/text/client_network.hpp"
#include "rate_limit/text/field_value.hpp"
#include "rate_limit/text/key.hpp"
#include "rate_limit/text/text_writer.hpp"
#include "rate_limit/text/url_text.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

namespace nginx_module {

namespace {

constexpr size_t longest_shown_key = 256; // bytes of `key`

/// An address in its bytes, as $binary_remote_addr has it.
struct BinaryAddress {
    std::array<char, sizeof(in6_addr)> bytes;
    size_t size;

    std::string_view view() const { return {bytes.data(), size}; }
};

/// Reads an IPv4 or IPv6 address.
std::optional<BinaryAddress> read_address(std::string_view text) {
    std::array<char, INET6_ADDRSTRLEN> terminated;
    if (text.size() >= terminated.size() || text.find('\0') != std::string_view::npos) {
        return std::nullopt;
    }
    *std::ranges::copy(text, terminated.begin()).out = '\0';
    BinaryAddress address{};
    const bool is_ipv6 = text.find(':') != std::string_view::npos;
    address.size = is_ipv6 ? sizeof(in6_addr) : sizeof(in_addr);
    if (inet_pton(is_ipv6 ? AF_INET6 : AF_INET, terminated.data(), address.bytes.data()) != 1) {
        return std::nullopt;
    }
    return address;
}

/// Returns the text that a variable which cuts addresses to so many bits has for an address, or for
/// a network of that size, which stands for itself. Returns nothing for any other text. A client on
/// a unix socket has `unix:`.
std::optional<std::string_view> network_in(std::string_view text, unsigned bits,
                                           rate_limit::NetworkText &out) {
    constexpr std::string_view of_unix_socket = "unix:";
    if (text == of_unix_socket) {
        return text;
    }
    std::array<char, std::string_view("/128").size()> size;
    rate_limit::TextWriter writer(size);
    writer << "/" << uint64_t{bits};
    const std::string_view of_network(size.data(), writer.size());
    const bool is_network = text.ends_with(of_network);
    const auto address =
        read_address(text.substr(0, text.size() - (is_network ? of_network.size() : 0)));
    if (!address) {
        return std::nullopt;
    }
    std::string_view found;
    if (address->size == sizeof(in6_addr)) {
        in6_addr of_client;
        std::ranges::copy(address->bytes, reinterpret_cast<char *>(&of_client));
        found = rate_limit::network_of(of_client, bits, out);
    } else {
        found = inet_ntop(AF_INET, address->bytes.data(), out.data(), out.size());
    }
    return is_network && !found.ends_with(of_network) ? std::nullopt : std::optional(found);
}

ApiError out_of_memory() {
    return {NGX_HTTP_INTERNAL_SERVER_ERROR, "out_of_memory", "out of memory"};
}

using Result = std::variant<ClientKey, ApiError>;

/// `bytes` are what the zone's variables give. They are copied if `is_own` is false.
Result key_of_bytes(ngx_http_request_t *r, std::string_view bytes) {
    std::array<char, 128> buffer;
    ClientKey key{bytes, rate_limit::encode_client_key(bytes, buffer)};
    if (!copy_text(r->pool, *key.bytes) || !copy_text(r->pool, key.encoded)) {
        return out_of_memory();
    }
    return key;
}

Result key_of_digest(ngx_http_request_t *r, std::string_view digits) {
    auto *encoded = static_cast<char *>(ngx_pnalloc(r->pool, 1 + digits.size()));
    if (encoded == nullptr) {
        return out_of_memory();
    }
    encoded[0] = '%';
    std::ranges::transform(digits, encoded + 1, [](char c) {
        return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    const std::string_view whole(encoded, 1 + digits.size());
    if (!rate_limit::digest_in(whole)) {
        return invalid_parameter(r, ApiParameter::key_sha256, "64 hex digits");
    }
    return ClientKey{std::nullopt, whole};
}

/// Writes the text percent-encoded into the pool. Returns nothing if memory ran out.
std::optional<std::string_view> url_encoded(ngx_pool_t *pool, std::string_view text) {
    const size_t longest = 3 * text.size();
    auto *encoded = static_cast<char *>(ngx_pnalloc(pool, std::max<size_t>(longest, 1)));
    if (encoded == nullptr) {
        return std::nullopt;
    }
    rate_limit::TextWriter writer(std::span<char>(encoded, longest));
    writer << rate_limit::UrlEncoded{text};
    return std::string_view(encoded, writer.size());
}

void write_members(JsonWriter &json, std::string_view key,
                   std::optional<std::string_view> key_encoded) {
    json.member("key", key);
    json.member("key_encoded", key_encoded);
}

void write_in_full(JsonWriter &json, ngx_pool_t *pool, const limiter::Zone &zone,
                   const ClientKey &key) {
    if (!key.bytes) {
        const std::string_view digits = rate_limit::digest_in(key.encoded).value_or("");
        return write_members(json, digits, digits);
    }
    limiter::KeyTextBuffer buffer;
    const std::string_view text = limiter::readable_key(zone, *key.bytes, buffer);
    std::array<char, longest_shown_key> shown;
    rate_limit::TextWriter writer(shown);
    writer << rate_limit::Readable{text, longest_shown_key};
    write_members(json, {shown.data(), writer.size()}, url_encoded(pool, text));
}

/// Writes the first digits of the key's hash, as logs show them.
void write_hash(JsonWriter &json, const limiter::Zone &zone, const ClientKey &key) {
    limiter::KeyTextBuffer buffer;
    const std::string_view hash = key.bytes ? limiter::hash_of_key(zone, *key.bytes, buffer)
                                            : rate_limit::digest_in(key.encoded)
                                                  .value_or("")
                                                  .substr(0, limiter::shown_digits_of_hash);
    write_members(json, hash, hash);
}

} // namespace

Result read_client_key(ngx_http_request_t *r, const limiter::Zone &zone,
                       const ApiParameters &parameters, KeyOf what) {
    if (const auto digits = parameters[ApiParameter::key_sha256]) {
        return key_of_digest(r, *digits);
    }
    const std::string_view text = *parameters[ApiParameter::key];
    if (zone.key_is_binary_address) {
        const auto address = read_address(text);
        return address ? key_of_bytes(r, address->view())
                       : invalid_parameter(r, ApiParameter::key, "an IPv4 or IPv6 address");
    }
    if (zone.key_network_bits) {
        const unsigned bits = *zone.key_network_bits;
        rate_limit::NetworkText buffer;
        if (const auto network = network_in(text, bits, buffer)) {
            return key_of_bytes(r, *network);
        }
        return invalid_parameter(
            r, ApiParameter::key,
            describe(r->pool, "an IPv4 or IPv6 address, or an IPv6 network /", uint64_t{bits}));
    }
    if (what == KeyOf::client && zone.cuts_key && rate_limit::has_outer_blanks(text)) {
        return invalid_parameter(
            r, ApiParameter::key,
            "a key without blanks or tabs at its ends, which are no part of keys");
    }
    return key_of_bytes(r, text);
}

void write_client_key(JsonWriter &json, ngx_pool_t *pool, const limiter::Zone &zone,
                      const ClientKey &key) {
    switch (zone.show_keys) {
    case ShowKeys::on:
        return write_in_full(json, pool, zone, key);
    case ShowKeys::hash:
        return write_hash(json, zone, key);
    case ShowKeys::off:
        break;
    }
    write_members(json, "", "");
}

std::optional<std::string_view> shown_digest(const limiter::Zone &zone,
                                             std::string_view encoded_key) {
    return zone.show_keys == ShowKeys::on ? rate_limit::digest_in(encoded_key) : std::nullopt;
}

std::string_view phrase_of_key(ngx_pool_t *pool, const limiter::Zone &zone, const ClientKey &key) {
    if (key.bytes) {
        KeyPhrase phrase(zone, *key.bytes);
        std::string_view text = view(*phrase.shown());
        return copy_text(pool, text) ? text : std::string_view();
    }
    const std::string_view digits = rate_limit::digest_in(key.encoded).value_or("");
    switch (zone.show_keys) {
    case ShowKeys::on:
        return describe(pool, ", key_sha256 \"", digits, "\"");
    case ShowKeys::hash:
        return describe(pool, ", key \"", digits.substr(0, limiter::shown_digits_of_hash), "\"");
    case ShowKeys::off:
        break;
    }
    return {};
}

} // namespace nginx_module
