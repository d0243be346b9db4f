#include "nginx_module/conf/key_text.hpp"

#include "rate_limit/text/client_network.hpp"
#include "rate_limit/text/key.hpp"

#include <algorithm>

namespace nginx_module {

namespace {

std::string_view as_shown(const ZoneConf &zone, std::string_view key, KeyTextBuffer &out) {
    switch (zone.show_keys) {
    case ShowKeys::on:
        return readable_key(zone, key, out);
    case ShowKeys::hash:
        return hash_of_key(zone, key, out);
    case ShowKeys::off:
        break;
    }
    return {};
}

} // namespace

std::string_view readable_key(const ZoneConf &zone, std::string_view key, KeyTextBuffer &out) {
    return zone.key_is_binary_address ? rate_limit::text_of_address(key, out) : key;
}

std::string_view hash_of_key(const ZoneConf &zone, std::string_view key, KeyTextBuffer &out) {
    const rate_limit::KeyDigest digest = rate_limit::digest_of(readable_key(zone, key, out));
    std::copy_n(digest.begin(), shown_digits_of_hash, out.begin());
    return {out.data(), shown_digits_of_hash};
}

KeyText::KeyText(const ZoneConf &zone, std::string_view key)
    : text_(as_shown(zone, key, buffer_)) {}

KeyPhrase::KeyPhrase(const ZoneConf &zone, std::string_view key) {
    if (zone.show_keys == ShowKeys::off) {
        return;
    }
    KeyText text(zone, key);
    const u_char *end = ngx_snprintf(bytes_.data(), bytes_.size(), ", key \"%V\"", text.shown());
    shown_ = {static_cast<size_t>(end - bytes_.data()), bytes_.data()};
}

} // namespace nginx_module
