#include "simulation/judged_log.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>
#include <span>

namespace simulation {

namespace {

/// What Redis's errors begin with.
constexpr std::array<std::string_view, 17> codes{
    "ASK",     "BUSY",       "CLUSTERDOWN", "CROSSSLOT", "ERR",      "LOADING",
    "MISCONF", "MASTERDOWN", "MOVED",       "NOAUTH",    "NOPERM",   "NOREPLICAS",
    "OOM",     "READONLY",   "TRYAGAIN",    "WRONGPASS", "WRONGTYPE"};

/// What else somebody may have said of a fault, and where a link was when it came.
constexpr std::array<std::string_view, 12> others{"",
                                                  "looking for it",
                                                  "connecting",
                                                  "logging in",
                                                  "slave",
                                                  "hello",
                                                  "connecting failed",
                                                  "it knows no master of that name",
                                                  "OK",
                                                  "the connection was closed",
                                                  "no answer in time",
                                                  "an unexpected reply"};

bool is_one_of(std::span<const std::string_view> texts, std::string_view text) {
    return std::ranges::find(texts, text) != texts.end();
}

bool begins_with_code(std::string_view text) {
    return is_one_of(codes, text.substr(0, text.find(' ')));
}

std::string_view without_place_in_script(std::string_view text) {
    constexpr std::string_view script = "user_script:";
    const size_t end = text.find(' ');
    return text.starts_with(script) && end < text.size() ? text.substr(end + 1) : text;
}

bool is_of_clocks(const redis_client::Fault &fault) {
    return fault.what.starts_with("its clock");
}

/// Returns `2026-11-26T09:30:00Z`.
std::string utc(Time unix_time) {
    const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(unix_time).count();
    std::tm of_utc{};
    gmtime_r(&seconds, &of_utc);
    std::array<char, 32> text;
    return {text.data(), std::strftime(text.data(), text.size(), "%FT%TZ", &of_utc)};
}

} // namespace

bool can_be_said(const redis_client::Fault &fault) {
    const std::string_view said = without_place_in_script(fault.detail);
    if (fault.what == "AUTH") { // its error may repeat the password
        return is_one_of(codes, said);
    }
    return is_of_clocks(fault) || begins_with_code(said) || is_one_of(others, said);
}

namespace {

/// Nobody may have said why it did, or somebody behind a colon.
bool is_what_failed(std::string_view text) {
    const size_t end = text.find(": ");
    if (end == std::string_view::npos) {
        return std::ranges::all_of(text, [](char c) { return c == ' ' || std::islower(c) != 0; });
    }
    const std::string_view detail = text.substr(end + 2);
    return !detail.empty() && can_be_said({.what = text.substr(0, end), .detail = detail});
}

} // namespace

bool can_be_said(redis_client::LiveTrouble trouble, std::string_view why) {
    using redis_client::LiveTrouble;
    if (trouble != LiveTrouble::refused && trouble != LiveTrouble::late) {
        return why.empty();
    }
    return begins_with_code(why) || (trouble == LiveTrouble::late && is_what_failed(why));
}

void JudgedLog::on_outage(std::string_view /*backend*/, std::string_view place, Cause cause,
                          const redis_client::Fault &fault, std::string_view checked) {
    ++begun_;
    ++lasting_[static_cast<size_t>(cause)];
    told_[{std::string(place), cause}] = {network_.timeline.now(), std::string(fault.detail),
                                          std::string(checked)};
    const std::string told = std::string(fault.what) + ": " + std::string(fault.detail);
    if (!can_be_said(fault)) {
        complain("tells what nobody has said: " + told);
    }
    if (is_of_clocks(fault)) {
        judge_clocks(fault.detail);
    }
    // A server may be out of reach, have keys of other types, and have its clocks apart, each
    // for itself; and there is what concerns a whole cluster.
    const size_t most = 3 * network_.servers.size() + 1;
    if (lasting() > most) {
        complain("tells of an outage that lasts: " + told + " at " + std::string(place));
    }
}

/// One of the two times is that of the host's clock, at most a second before the outage is told.
void JudgedLog::judge_clocks(std::string_view told) {
    const Time now = network_.timeline.now() + ahead_;
    const std::string before = ", that of this host says ";
    if (!told.ends_with(before + utc(now)) &&
        !told.ends_with(before + utc(now - std::chrono::seconds{1}))) {
        complain("tells a time that the host does not have: " + std::string(told));
    }
}

void JudgedLog::on_outage_end(std::string_view /*backend*/, std::string_view place, Cause cause,
                              End how, const redis_client::Outage::Summary &outage) {
    if (lasting(cause) == 0) {
        complain("tells the end of no outage at " + std::string(place));
        return;
    }
    ++ended_;
    --lasting_[static_cast<size_t>(cause)];
    if (how == End::works_again) {
        judge_success(std::string(place), cause);
    }
    failed_checks_ += outage.failed_checks;
    const Time age = network_.timeline.now() - began_;
    if (outage.lasted.count() < 0 ||
        outage.lasted > std::chrono::ceil<std::chrono::milliseconds>(age)) {
        complain("tells that an outage lasted " + std::to_string(outage.lasted.count()) + " ms");
    }
}

/// What was told to fail does so no more. A Redis that has refused writes since then refuses them
/// still, a key that has held another type ever since still holds it, and a year between two clocks
/// is longer than any window that a host knows and has no verdict for.
void JudgedLog::judge_success(const std::string &place, Cause cause) {
    if (cause == Cause::clocks && ahead_ > std::chrono::days{300}) {
        complain("tells that clocks work again, which are a year apart");
    }
    const auto told = told_.find({place, cause});
    const auto server = network_.servers.find(place);
    if (told == told_.end() || server == network_.servers.end()) {
        return;
    }
    const auto &[when, fault, checked] = told->second;
    if (cause == Cause::redis) {
        const std::string_view refusal = server->second->refusal_of_writes(when);
        if (!refusal.empty() && fault.find(refusal) != std::string::npos) {
            complain("tells that a Redis works again which has said ever since: " + fault);
        }
    }
    for (std::string_view rest = checked; !rest.empty();) {
        const std::string_view key = redis_client::next_word(rest);
        if (cause == Cause::keys && server->second->has_spoilt(key, when)) {
            complain("tells that a key works again which is of another type: " + std::string(key));
        }
    }
}

std::string_view JudgedLog::describe(std::span<const limiter::AppliedRule> rules,
                                     std::span<char> out) const {
    std::string keys;
    for (const limiter::AppliedRule &rule : rules) {
        keys += std::string(rule.charge->redis_key) + ' ';
    }
    return {out.data(), keys.copy(out.data(), out.size())};
}

void JudgedLiveLog::on_trouble(std::string_view /*backend*/, redis_client::LiveTrouble trouble,
                               std::string_view why) {
    if (!can_be_said(trouble, why)) {
        network_.complaints.push_back("a log of live limits tells: " + std::string(why));
    }
}

} // namespace simulation
