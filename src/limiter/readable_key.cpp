#include "limiter/readable_key.hpp"

#include "rate_limit/text/client_network.hpp"

#include <algorithm>

namespace limiter {

std::string_view readable_key(const Zone &zone, std::string_view key, KeyTextBuffer &out) {
    return zone.key_form == KeyForm::address_bytes ? rate_limit::text_of_address(key, out) : key;
}

std::string_view hash_of_key(const Zone &zone, std::string_view key, KeyTextBuffer &out) {
    const rate_limit::KeyDigest digest = rate_limit::digest_of(readable_key(zone, key, out));
    std::copy_n(digest.begin(), shown_digits_of_hash, out.begin());
    return {out.data(), shown_digits_of_hash};
}

} // namespace limiter
