#include "rate_limit/settings/override_json.hpp"

#include "rate_limit/algorithms/algorithm.hpp"
#include "rate_limit/text/parameters.hpp"
#include "rate_limit/text/url_text.hpp"

#include <rapidjson/reader.h>

#include <array>
#include <cmath>

namespace rate_limit {

namespace {

enum Member : size_t { limit, burst, ban, exempt, expires_in, note };

constexpr std::array<std::string_view, 6> names = {"limit",  "burst",      "ban",
                                                   "exempt", "expires_in", "note"};

constexpr std::string_view expected_time = "a whole number of seconds from 1 to 31622400";
constexpr std::string_view expected_note = "at most 128 bytes of text";
constexpr std::string_view expected_text = "a JSON object in UTF-8";

/// Takes what the reader of RapidJSON finds in one flat object. Returning false stops the reader.
class Handler {
  public:
    explicit Handler(OverrideOf of) : of_(of) {}

    const OverrideError &error() const { return error_; }

    /// Returns the whole, or what does not fit together.
    std::variant<OverrideDraft, OverrideError> result() const {
        const auto conflict = [](Member member, std::string_view expected) {
            return OverrideError{names[member], expected};
        };
        const bool has_numbers = draft_.what.limit || draft_.what.burst;
        if (is_ban_ && is_exempt_) {
            return conflict(exempt, "either ban or exempt");
        }
        if (has_numbers && (is_ban_ || is_exempt_)) {
            return conflict(draft_.what.limit ? limit : burst,
                            is_ban_ ? "no numbers beside ban" : "no numbers beside exempt");
        }
        if (!has_numbers && !is_ban_ && !is_exempt_) {
            return OverrideError{
                {}, of_ == OverrideOf::rule ? "limit or burst" : "limit, burst, ban or exempt"};
        }
        OverrideDraft draft = draft_;
        draft.what.action = is_ban_      ? Override::Action::ban
                            : is_exempt_ ? Override::Action::exempt
                                         : Override::Action::numbers;
        return draft;
    }

    // RapidJSON calls these by its own names, with sizes of its own type, and on an object.
    // NOLINTBEGIN(readability-identifier-naming,readability-convert-member-functions-to-static)
    bool StartObject() { return depth_++ == 0 || refuse(); }
    bool EndObject(unsigned /*members*/) { return true; }
    bool StartArray() { return refuse(); }
    bool EndArray(unsigned /*elements*/) { return true; }
    bool Key(const char *text, unsigned size, bool /*copy*/) {
        return take_text(text, size) && begin_member(std::string_view(text, size));
    }
    bool Null() { return depth_ > 0 || refuse(); }
    bool Bool(bool value) { return set_flag(value); }
    bool Int(int value) { return Int64(value); }
    bool Uint(unsigned value) { return Uint64(value); }
    bool Int64(int64_t /*value*/) { return refuse(); } // these are below 0
    bool Uint64(uint64_t value) { return set_number(value); }
    bool Double(double value) {
        // JSON has one kind of numbers: 1000.0 and 1e3 are whole ones, too.
        const bool is_whole = value >= 0 && value <= 1e15 && std::trunc(value) == value;
        return is_whole ? set_number(static_cast<uint64_t>(value)) : refuse();
    }
    bool RawNumber(const char * /*text*/, unsigned /*size*/, bool /*copy*/) { return refuse(); }
    bool String(const char *text, unsigned size, bool /*copy*/) {
        return take_text(text, size) && set_text(std::string_view(text, size));
    }
    // NOLINTEND(readability-identifier-naming,readability-convert-member-functions-to-static)

  private:
    /// The reader takes the escape of a low surrogate that stands alone for a character.
    bool take_text(const char *text, unsigned size) {
        if (!is_utf8(std::string_view(text, size))) {
            error_ = {{}, expected_text};
            return false;
        }
        return true;
    }

    bool begin_member(std::string_view name) {
        for (size_t i = 0; i < names.size(); ++i) {
            const bool is_taken = of_ == OverrideOf::client || (i != ban && i != exempt);
            if (names[i] == name && is_taken) {
                member_ = static_cast<Member>(i);
                const bool is_doubled = given_[i];
                given_[i] = true;
                return !is_doubled || refuse_with("it only once");
            }
        }
        error_ = {name, of_ == OverrideOf::client
                            ? "one of limit, burst, ban, exempt, expires_in and note"
                            : "one of limit, burst, expires_in and note"};
        return false;
    }

    bool set_number(uint64_t value) {
        if (depth_ == 0) {
            return refuse();
        }
        switch (member_) {
        case limit:
            draft_.what.limit = value;
            return value <= largest_number || refuse();
        case burst:
            draft_.what.burst = value;
            return value <= largest_number || refuse();
        case expires_in: {
            const auto most = static_cast<uint64_t>(longest_override.count());
            draft_.expires_in = std::chrono::seconds(value);
            return (value >= 1 && value <= most) || refuse();
        }
        default:
            return refuse();
        }
    }

    bool set_flag(bool value) {
        if (depth_ == 0 || (member_ != ban && member_ != exempt)) {
            return refuse();
        }
        (member_ == ban ? is_ban_ : is_exempt_) = value;
        return true;
    }

    bool set_text(std::string_view text) {
        if (depth_ == 0 || member_ != note || text.size() > longest_note) {
            return refuse();
        }
        draft_.note = text;
        return true;
    }

    /// Refuses the value of the current member, or the whole if there is none yet.
    bool refuse() {
        if (depth_ == 0) {
            return refuse_whole();
        }
        switch (member_) {
        case limit:
        case burst:
            return refuse_with(expected_number);
        case ban:
        case exempt:
            return refuse_with("true or false");
        case expires_in:
            return refuse_with(expected_time);
        case note:
            return refuse_with(expected_note);
        }
        return refuse_whole();
    }
    bool refuse_with(std::string_view expected) {
        error_ = {names[member_], expected};
        return false;
    }
    bool refuse_whole() {
        error_ = {{}, "a JSON object"};
        return false;
    }

    OverrideOf of_;
    int depth_ = 0;
    Member member_ = limit;
    std::array<bool, names.size()> given_{};
    bool is_ban_ = false;
    bool is_exempt_ = false;
    OverrideDraft draft_;
    OverrideError error_;
};

} // namespace

std::variant<OverrideDraft, OverrideError> parse_override(std::span<char> text, OverrideOf of) {
    const std::string_view whole(text.data(), text.size());
    // The reader takes a null byte for the end of the text.
    if (whole.find('\0') != std::string_view::npos || !is_utf8(whole)) {
        return OverrideError{{}, expected_text};
    }
    text.data()[text.size()] = '\0';
    Handler handler(of);
    rapidjson::InsituStringStream stream(text.data());
    // It decodes strings where they stand, and the handler takes no nested value, so that the
    // reader needs no memory of its own.
    rapidjson::Reader reader;
    const rapidjson::ParseResult parsed =
        reader.Parse<rapidjson::kParseInsituFlag | rapidjson::kParseValidateEncodingFlag>(stream,
                                                                                          handler);
    if (parsed.Code() == rapidjson::kParseErrorTermination) {
        return handler.error();
    }
    if (parsed.IsError()) {
        return OverrideError{{}, expected_text};
    }
    return handler.result();
}

} // namespace rate_limit
