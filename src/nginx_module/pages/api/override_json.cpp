#include "nginx_module/pages/api/override_json.hpp"

#include "rate_limit/text/text_writer.hpp"
#include "rate_limit/text/url_text.hpp"

#include <algorithm>
#include <array>

namespace nginx_module {

namespace {

using rate_limit::Override;
using std::chrono::microseconds;

/// Writes a text that came from Redis, where anybody may have written it. Each byte takes four at
/// most.
void write_text(JsonWriter &json, std::string_view name, std::string_view text) {
    std::array<char, 4 * redis_client::longest_live_text> shown;
    rate_limit::TextWriter writer(shown);
    writer << rate_limit::Readable{.bytes = text, .most = shown.size(), .keeps_order_marks = true};
    json.member(name, std::string_view(shown.data(), writer.size()));
}

} // namespace

void write_override(JsonWriter &json, ngx_pool_t *pool, const OverrideOwner &owner,
                    const ShownOverride &shown, microseconds redis_now) {
    const Override &what = shown.what;
    json.begin_object();
    json.member("zone", std::string_view(owner.zone.name));
    if (owner.key != nullptr) {
        write_client_key(json, pool, owner.zone, *owner.key);
        json.member("key_sha256", shown_digest(owner.zone, owner.key->encoded));
    } else {
        for (const std::string_view none : {"key", "key_encoded", "key_sha256"}) {
            json.member(none, Null{});
        }
    }
    json.member("rule", owner.rule.empty() ? std::nullopt : std::optional(owner.rule));
    json.member("limit", what.limit);
    json.member("burst", what.burst);
    json.member("ban", what.action == Override::Action::ban);
    json.member("exempt", what.action == Override::Action::exempt);
    json.name("expires_in");
    if (what.expires_at.count() > 0) {
        json.value(rate_limit::Seconds{std::max(what.expires_at - redis_now, microseconds{0})});
    } else {
        json.value(Null{});
    }
    write_text(json, "note", shown.note);
    json.member("updated_at", rate_limit::Seconds{shown.updated_at});
    write_text(json, "by", shown.by);
    json.end_object();
}

} // namespace nginx_module
