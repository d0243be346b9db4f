// What operators send to the API: percent-encoded keys, and JSON. What is taken has the meaning
// that a simple writer gives it, and what is shown is text.

#include "rate_limit/settings/override_json.hpp"
#include "rate_limit/text/text_writer.hpp"
#include "rate_limit/text/url_text.hpp"
#include "targets.hpp"

#include <string>
#include <variant>

namespace fuzz {
namespace {

using rate_limit::Override;
using rate_limit::OverrideDraft;
using rate_limit::OverrideOf;

template <typename Piece>
std::string written(Piece piece, size_t most) {
    std::string out(most, '?');
    rate_limit::TextWriter writer(out);
    writer << piece;
    require(writer.size() <= most, "what is written has its bound");
    out.resize(writer.size());
    return out;
}

void check_key(std::string_view text) {
    std::string out(text.size(), '?');
    const auto decoded = rate_limit::decode_percent(text, out);
    require(!decoded || decoded->size() <= text.size(), "decoding makes a text no longer");
    const std::string encoded = written(rate_limit::UrlEncoded{text}, 3 * text.size());
    out.assign(encoded.size(), '?');
    require(rate_limit::decode_percent(encoded, out) == text, "what is encoded is read back");
    require(encoded.find_first_of("&=+# \n\"<>") == std::string::npos, "and can stand in a query");
}

void check_shown(std::string_view text, size_t most) {
    const std::string shown = written(rate_limit::Readable{text, most}, most);
    require(rate_limit::is_utf8(shown), "what is shown is UTF-8");
    for (const char c : shown) {
        require(static_cast<unsigned char>(c) >= ' ' && c != 0x7F, "without controls");
    }
    require(text.size() * 4 > most || rate_limit::is_utf8(text) || shown != text,
            "what is no UTF-8 is not shown as it is");
}

/// A JSON string, each byte of ASCII as an escape.
std::string quoted(std::string_view text) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string json = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x80) {
            json += "\\u00";
            json += digits[byte >> 4];
            json += digits[byte & 15];
        } else {
            json += c;
        }
    }
    return json + "\"";
}

std::string json_of(const OverrideDraft &draft) {
    const Override &what = draft.what;
    std::string json = "{";
    if (what.limit) {
        json += "\"limit\":" + std::to_string(*what.limit) + ",";
    }
    if (what.burst) {
        json += "\"burst\":" + std::to_string(*what.burst) + ",";
    }
    if (what.action != Override::Action::numbers) {
        json += what.action == Override::Action::ban ? "\"ban\":true," : "\"exempt\":true,";
    }
    if (draft.expires_in) {
        json += "\"expires_in\":" + std::to_string(draft.expires_in->count()) + ",";
    }
    return json + "\"note\":" + quoted(draft.note) + "}";
}

void check_body(std::string text, OverrideOf of) {
    const auto result = rate_limit::parse_override(text, of);
    const auto *draft = std::get_if<OverrideDraft>(&result);
    if (draft == nullptr) {
        require(!std::get_if<rate_limit::OverrideError>(&result)->expected.empty(),
                "who is refused is told what was expected");
        return;
    }
    const Override &what = draft->what;
    const bool has_numbers = what.limit || what.burst;
    require(has_numbers == (what.action == Override::Action::numbers),
            "numbers and other actions are apart");
    require(of == OverrideOf::client || has_numbers, "a rule has numbers");
    require(what.limit.value_or(0) <= 1'000'000'000 && what.burst.value_or(0) <= 1'000'000'000,
            "numbers are in range");
    const auto time = draft->expires_in ? draft->expires_in->count() : 1;
    require(time >= 1 && time <= 31'622'400, "and so is the time");
    require(draft->note.size() <= 128 && rate_limit::is_utf8(draft->note), "a note is short text");

    std::string again = json_of(*draft);
    const auto repeated = rate_limit::parse_override(again, of);
    const auto *same = std::get_if<OverrideDraft>(&repeated);
    require(same != nullptr && same->what == what && same->expires_in == draft->expires_in &&
                same->note == draft->note,
            "what is taken is written and read again");
}

} // namespace

void operators(Input input) {
    const OverrideOf of = input.flag() ? OverrideOf::client : OverrideOf::rule;
    const size_t most = input.number(0, 300);
    const std::string text(input.rest().substr(0, 4096));
    check_key(text);
    check_shown(text, most);
    check_body(text, of);
}

} // namespace fuzz
