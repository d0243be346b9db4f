// One question to Redis: may this key take one more unit of this rule?
#pragma once

#include "../rate_limit/key.hpp"
#include "../rate_limit/rule.hpp"
#include "../rate_limit/verdict.hpp"
#include "intrusive_list.hpp"
#include "script.hpp"

#include <chrono>
#include <memory>
#include <string_view>
#include <variant>

namespace redis_client {

/// Time on a clock of the worker that never steps back, from any origin.
using Time = std::chrono::milliseconds;

/// Why there is no verdict.
enum class Failure {
    timeout,  // not within the check's deadline
    connect,  // no connection, or it broke while the check was on its way
    reply,    // Redis answered with an error
    overload, // too many checks wait already, or no memory
};

using CheckResult = std::variant<rate_limit::Verdict, Failure>;

/// Who waits for a check's result.
class CheckListener {
  public:
    /// Called once, unless the check was abandoned; the check is gone by then. Must not call back
    /// into the session.
    virtual void on_result(const CheckResult &result) = 0;

  protected:
    ~CheckListener() = default;
};

/// What all checks of a rule have in common, made once at configuration. Outlives its checks.
struct PreparedRule {
    PreparedRule(rate_limit::Rule a_rule, std::string_view prefix)
        : rule(std::move(a_rule)),
          key_format(prefix, rule),
          script(&script_of(rule.algorithm)),
          arguments(script_arguments(rule)) {}

    rate_limit::Rule rule;
    rate_limit::KeyFormat key_format;
    const Script *script;
    WireWords arguments;
};

/// Owned by the session. It outlives its listener: a check that was sent stays until its reply
/// came, so that the reply is taken for nobody else's.
struct Check {
    const PreparedRule *rule = nullptr;
    CheckListener *listener = nullptr; // null: nobody waits any more
    Time asked{0};
    Time sent{0};
    bool is_sent = false;
    uint64_t end_of_command = 0; // where it ends in the session's output
    bool sent_in_full = false;   // with EVAL, not by its script's name
    bool timed_out = false;      // and was counted as that: a late reply changes nothing
    std::string_view redis_key;
    rate_limit::RedisKeyBuffer redis_key_bytes;

    ListHook<Check> waiting_hook;    // those with a listener, in the order of asking
    ListHook<Check> unanswered_hook; // those sent, in the order of sending
    Check *next_spare = nullptr;
    std::unique_ptr<Check> older; // made before this one
};

} // namespace redis_client
