// A client's request, as the limiter needs it. What drives the limiter implements it.
#pragma once

#include "limiter/applied_rule.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace limiter {

/// A variable of a rule that is no number from 0 to `largest`.
struct InvalidNumber {
    const Rule &rule;
    const char *parameter;
    std::string_view value;
    uint64_t largest;
};

/// What a request does on its way, for the debug log.
enum class RequestEvent : uint8_t {
    applies_rules, // how many
    knows_denials, // of how many rules
    takes_leased,  // for how many rules units are from leases
    asks_redis,    // by how many checks that wait for an answer
    has_answers,   // after so many microseconds
    passes,        // by the rules that have decided
};

class Request {
  public:
    /// Evaluates the key of a zone, or a text of a rule that has one. Returns nothing if memory ran
    /// out. What is returned is valid until the same is asked for again, or longer.
    virtual std::optional<std::string_view> key(const Zone &zone) = 0;
    virtual std::optional<std::string_view> text(const Rule &rule, RuleText which) = 0;

    /// Returns the client's address in bytes, as `$binary_remote_addr` has it. It is empty if none
    /// is known.
    virtual std::string_view address() = 0;

    /// All answers are there that LimitedRequest::apply() waits for. This is called once, in the
    /// middle of reading replies: LimitedRequest::take_answers() must be called later.
    virtual void on_answered() = 0;

    virtual void report(const InvalidNumber &invalid) = 0;
    /// A dry run has decided.
    virtual void report_dry_run(const AppliedRule &rule) = 0;
    virtual void report(RequestEvent event, int64_t number = 0) = 0;

  protected:
    ~Request() = default;
};

} // namespace limiter
