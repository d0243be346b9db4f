#include "nginx_module/pages/api/key.hpp"

#include "nginx_module/decisions/key_text.hpp"
#include "nginx_module/pages/api/address_key.hpp"
#include "nginx_module/util.hpp"
#include "rate_limit/text/field_value.hpp"
#include "rate_limit/text/key.hpp"
#include "rate_limit/text/text_writer.hpp"
#include "rate_limit/text/url_text.hpp"

#include <algorithm>
#include <array>

namespace nginx_module {

namespace {

constexpr size_t longest_shown_key = 256; // bytes of `key`

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

/// Room for a key that is not the text that names it.
struct KeyBuffer {
    BinaryAddress address;
    rate_limit::NetworkText network;
};

/// Whether the text is what logs and pages show of a key, and not the key. A key may look so, too:
/// if it is no address, only one that is shown is known to be a digest.
bool is_shown_digest(const limiter::Zone &zone, std::string_view text) {
    if (zone.show_keys != ShowKeys::hash || text.size() != limiter::shown_digits_of_hash ||
        text.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
        return false;
    }
    if (zone.key_form != limiter::KeyForm::text) {
        return true;
    }
    rate_limit::TopKeys::Buffer buffer;
    const auto shown = zone.memory.top_keys().read(rate_limit::TopKeys::Kept::hashes, buffer);
    return std::ranges::find(shown, text, &rate_limit::TopKeys::Counted::key) != shown.end();
}

/// Returns the key that requests of the client have which the text names. It may be in `buffer`.
/// Returns nothing if no client can have it.
std::optional<std::string_view> client_key_in(const limiter::Zone &zone, std::string_view text,
                                              KeyBuffer &buffer) {
    switch (zone.key_form) {
    case limiter::KeyForm::network:
        return network_in(text, zone.key_network_bits, buffer.network);
    case limiter::KeyForm::address:
    case limiter::KeyForm::address_bytes: {
        const auto address = read_address(text);
        if (!address) {
            return text == unix_socket_key ? std::optional(text) : std::nullopt;
        }
        if (zone.key_form == limiter::KeyForm::address_bytes) {
            buffer.address = *address;
            return buffer.address.view();
        }
        AddressText by_nginx;
        return text_of(*address, by_nginx) == text ? std::optional(text) : std::nullopt;
    }
    case limiter::KeyForm::text:
        break;
    }
    const bool has_cut_ends = zone.cuts_key && rate_limit::has_outer_blanks(text);
    return has_cut_ends || is_shown_digest(zone, text) ? std::nullopt : std::optional(text);
}

/// Says which key is expected in the place of a text that no client's key can be.
std::string_view expected_key(ngx_pool_t *pool, const limiter::Zone &zone, std::string_view text) {
    if (is_shown_digest(zone, text)) {
        return "the key itself, of which show_keys=hash shows this digest";
    }
    if (zone.key_form == limiter::KeyForm::text) {
        return "a key without blanks or tabs at its ends, which are no part of keys";
    }
    if (const auto meant = read_meant_address(text)) {
        AddressText by_nginx;
        return describe(pool, "\"", text_of(*meant, by_nginx), "\", as nginx writes this address");
    }
    if (zone.key_form == limiter::KeyForm::network) {
        return describe(pool, "an IPv4 or IPv6 address, or an IPv6 network /",
                        uint64_t{zone.key_network_bits});
    }
    return text.find('/') != std::string_view::npos
               ? "the address of one client, for a network is no client's key"
               : "an IPv4 or IPv6 address";
}

} // namespace

Result read_client_key(ngx_http_request_t *r, const limiter::Zone &zone,
                       const ApiParameters &parameters, KeyOf what) {
    if (const auto digits = parameters[ApiParameter::key_sha256]) {
        return key_of_digest(r, *digits);
    }
    const std::string_view text = *parameters[ApiParameter::key];
    KeyBuffer buffer;
    if (const auto key = client_key_in(zone, text, buffer)) {
        return key_of_bytes(r, *key);
    }
    // Of a zone that is read by its variable, older versions have stored no other keys.
    const bool may_be_stored =
        zone.key_form == limiter::KeyForm::text || zone.key_form == limiter::KeyForm::address;
    if (what == KeyOf::stored_override && may_be_stored) {
        return key_of_bytes(r, text);
    }
    return invalid_parameter(r, ApiParameter::key, expected_key(r->pool, zone, text));
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
