#include "rate_limit/settings/override_json.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

/// Reads a copy of the text, which has to live as long as the result.
class Parsed {
  public:
    explicit Parsed(std::string_view text, OverrideOf of = OverrideOf::client)
        : text_(text), result_(parse_override(text_, of)) {}

    const OverrideDraft *draft() const { return std::get_if<OverrideDraft>(&result_); }
    /// `member: what was expected`, or "" without an error.
    std::string error() const {
        const auto *found = std::get_if<OverrideError>(&result_);
        return found == nullptr ? ""
                                : std::string(found->member) + ": " + std::string(found->expected);
    }

  private:
    std::string text_;
    std::variant<OverrideDraft, OverrideError> result_;
};

std::string error_of(std::string_view text, OverrideOf of = OverrideOf::client) {
    return Parsed(text, of).error();
}

constexpr std::string_view number = "a whole number from 0 to 1000000000";
constexpr std::string_view time = "a whole number of seconds from 1 to 31622400";

TEST(OverrideJson, HasAllMembers) {
    const Parsed parsed(
        R"( {"limit": 1000, "burst": 50, "expires_in": 3600, "note": "ticket 4711"} )");
    ASSERT_EQ(parsed.error(), "");
    const OverrideDraft &draft = *parsed.draft();
    EXPECT_EQ(draft.what.action, Override::Action::numbers);
    EXPECT_EQ(draft.what.limit, 1000u);
    EXPECT_EQ(draft.what.burst, 50u);
    EXPECT_EQ(draft.what.expires_at, 0us);
    EXPECT_EQ(draft.expires_in, 3600s);
    EXPECT_EQ(draft.note, "ticket 4711");
}

TEST(OverrideJson, LeavesOutWhatIsMissing) {
    const Parsed parsed(R"({"limit": 0})");
    ASSERT_EQ(parsed.error(), "");
    EXPECT_EQ(parsed.draft()->what.limit, 0u);
    EXPECT_EQ(parsed.draft()->what.burst, std::nullopt);
    EXPECT_EQ(parsed.draft()->expires_in, std::nullopt);
    EXPECT_EQ(parsed.draft()->note, "");
}

TEST(OverrideJson, TakesNullAndFalseForMissing) {
    const Parsed parsed(
        R"({"limit": null, "burst": 7, "ban": false, "exempt": null, "expires_in": null, "note": null})");
    ASSERT_EQ(parsed.error(), "");
    Override burst_alone;
    burst_alone.burst = 7;
    EXPECT_EQ(parsed.draft()->what, burst_alone);
    EXPECT_EQ(parsed.draft()->expires_in, std::nullopt);
}

TEST(OverrideJson, BansAndExempts) {
    const Parsed ban(R"({"ban": true, "expires_in": 60})");
    ASSERT_EQ(ban.error(), "");
    EXPECT_EQ(ban.draft()->what.action, Override::Action::ban);
    EXPECT_EQ(ban.draft()->expires_in, 60s);
    const Parsed exempt(R"({"exempt": true})");
    ASSERT_EQ(exempt.error(), "");
    EXPECT_EQ(exempt.draft()->what.action, Override::Action::exempt);
}

TEST(OverrideJson, NamesWhatConflicts) {
    EXPECT_EQ(error_of(R"({"ban": true, "exempt": true})"), "exempt: either ban or exempt");
    EXPECT_EQ(error_of(R"({"limit": 1, "ban": true})"), "limit: no numbers beside ban");
    EXPECT_EQ(error_of(R"({"exempt": true, "burst": 1})"), "burst: no numbers beside exempt");
    EXPECT_EQ(error_of("{}"), ": limit, burst, ban or exempt");
    EXPECT_EQ(error_of(R"({"expires_in": 5, "note": "x"})"), ": limit, burst, ban or exempt");
    EXPECT_EQ(error_of(R"({"ban": false})"), ": limit, burst, ban or exempt");
}

TEST(OverrideJson, OfARuleTakesNumbersAlone) {
    EXPECT_EQ(
        error_of(R"({"limit": 10, "burst": 1, "expires_in": 5, "note": "n"})", OverrideOf::rule),
        "");
    EXPECT_EQ(error_of(R"({"ban": true})", OverrideOf::rule),
              "ban: one of limit, burst, expires_in and note");
    EXPECT_EQ(error_of(R"({"exempt": true})", OverrideOf::rule),
              "exempt: one of limit, burst, expires_in and note");
    EXPECT_EQ(error_of("{}", OverrideOf::rule), ": limit or burst");
}

TEST(OverrideJson, NamesUnknownAndDoubledMembers) {
    EXPECT_EQ(error_of(R"({"limti": 5})"),
              "limti: one of limit, burst, ban, exempt, expires_in and note");
    EXPECT_EQ(error_of(R"({"Limit": 5})"),
              "Limit: one of limit, burst, ban, exempt, expires_in and note");
    EXPECT_EQ(error_of(R"({"": 5})"), ": one of limit, burst, ban, exempt, expires_in and note");
    EXPECT_EQ(error_of(R"({"limit": 5, "limit": 6})"), "limit: it only once");
    EXPECT_EQ(error_of(R"({"li\u006dit": 5, "limit": 5})"), "limit: it only once");
}

TEST(OverrideJson, TakesWholeNumbersAlone) {
    const auto limit = [](std::string_view text) {
        const Parsed parsed("{\"limit\": " + std::string(text) + "}");
        return parsed.draft() != nullptr ? std::to_string(*parsed.draft()->what.limit)
                                         : parsed.error();
    };
    EXPECT_EQ(limit("1000000000"), "1000000000");
    EXPECT_EQ(limit("1000.0"), "1000"); // JSON knows one kind of numbers
    EXPECT_EQ(limit("1e3"), "1000");
    const std::string wrong = "limit: " + std::string(number);
    for (const std::string_view text :
         {"1000000001", "18446744073709551615", "18446744073709551616", "-1", "-0", "0.5", "1e10",
          "-1e3", "9007199254740993", "\"5\"", "true", "[5]", "{}", "-9223372036854775808"}) {
        EXPECT_EQ(limit(text), wrong) << text;
    }
    for (const std::string_view text : {"0x10", "01", "+1", "1.", ".5", "inf", "nan", "1e999"}) {
        EXPECT_EQ(limit(text), ": a JSON object in UTF-8") << text;
    }
}

TEST(OverrideJson, BoundsTheTime) {
    const auto error = [](std::string_view text) {
        return error_of("{\"ban\": true, \"expires_in\": " + std::string(text) + "}");
    };
    EXPECT_EQ(error("1"), "");
    EXPECT_EQ(error("31622400"), "");
    for (const std::string_view text : {"0", "31622401", "-1", "0.5", "\"60\"", "true"}) {
        EXPECT_EQ(error(text), "expires_in: " + std::string(time)) << text;
    }
}

TEST(OverrideJson, BoundsTheNote) {
    const auto with_note = [](const std::string &note) {
        return "{\"ban\": true, \"note\": \"" + note + "\"}";
    };
    const std::string longest(128, 'x');
    EXPECT_EQ(Parsed(with_note(longest)).draft()->note, longest);
    EXPECT_EQ(error_of(with_note(longest + "x")), "note: at most 128 bytes of text");
    EXPECT_EQ(error_of(with_note(longest.substr(1) + "\\u00e9")),
              "note: at most 128 bytes of text");
    EXPECT_EQ(error_of(R"({"ban": true, "note": 5})"), "note: at most 128 bytes of text");
    EXPECT_EQ(Parsed(with_note(R"(a\"b\\c\n\u0000\u20ac\ud83d\ude00)")).draft()->note,
              "a\"b\\c\n\0\u20ac\U0001F600"s);
}

TEST(OverrideJson, RefusesWhatIsNoObject) {
    for (const std::string_view text :
         {"", " ", "null", "5", "\"limit\"", "true", "[]", "[{\"limit\": 5}]", "limit=5"}) {
        EXPECT_TRUE(error_of(text).starts_with(": a JSON object")) << text;
    }
    for (const std::string_view text :
         {"{\"limit\": 5", "{\"limit\": 5}}", "{\"limit\": 5} x", "{'limit': 5}", "{limit: 5}",
          "{\"limit\": 5,}", "{\"limit\" 5}", "\xef\xbb\xbf{\"limit\": 5}",
          "{\"note\": \"\n\", \"ban\": true}", "{\"note\": \"\\ud800\", \"ban\": true}",
          "{\"note\": \"\\ude00\", \"ban\": true}", "{\"note\": \"\\ude00\\ud83d\", \"ban\": true}",
          "{\"note\": \"\\ud83d\\u0041\", \"ban\": true}", "{\"\\udc00\": 1, \"ban\": true}",
          "{\"note\": \"\xff\", \"ban\": true}"}) {
        EXPECT_EQ(error_of(text), ": a JSON object in UTF-8") << text;
    }
    EXPECT_EQ(error_of("{\"limit\": 5}\0"s), ": a JSON object in UTF-8");
    EXPECT_EQ(error_of("{\"limit\": 5}\0{\"ban\": true}"s), ": a JSON object in UTF-8");
}

TEST(OverrideJson, RefusesNestedValuesWithoutRecursion) {
    const std::string deep(100'000, '[');
    EXPECT_EQ(error_of("{\"limit\": " + deep), "limit: " + std::string(number));
    EXPECT_EQ(error_of(deep), ": a JSON object");
    EXPECT_EQ(error_of("{\"x\": " + deep),
              "x: one of limit, burst, ban, exempt, expires_in and note");
}

} // namespace
} // namespace rate_limit
