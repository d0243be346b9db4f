#include "nginx_module/decisions/key_text.hpp"

namespace nginx_module {

namespace {

std::string_view as_shown(const limiter::Zone &zone, std::string_view key,
                          limiter::KeyTextBuffer &out) {
    switch (zone.show_keys) {
    case rate_limit::ShowKeys::on:
        return limiter::readable_key(zone, key, out);
    case rate_limit::ShowKeys::hash:
        return limiter::hash_of_key(zone, key, out);
    case rate_limit::ShowKeys::off:
        break;
    }
    return {};
}

} // namespace

KeyText::KeyText(const limiter::Zone &zone, std::string_view key)
    : text_(as_shown(zone, key, buffer_)) {}

KeyPhrase::KeyPhrase(const limiter::Zone &zone, std::string_view key) {
    if (zone.show_keys == rate_limit::ShowKeys::off) {
        return;
    }
    KeyText text(zone, key);
    const u_char *end = ngx_snprintf(bytes_.data(), bytes_.size(), ", key \"%V\"", text.shown());
    shown_ = {static_cast<size_t>(end - bytes_.data()), bytes_.data()};
}

} // namespace nginx_module
