// A Redis on a clock that the test moves, asked as the module asks it.
//
// Environment: RATE_LIMIT_REDIS_PORT, RATE_LIMIT_CLOCK (see t/lib/clock.c).
#pragma once

#include "redis_client/io/unix_clock.hpp"
#include "redis_client/script/script.hpp"
#include "redis_client/session/check.hpp"
#include "redis_client/wire/reply_tree.hpp"

#include <hiredis/hiredis.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace model {

class Clock {
  public:
    Clock();
    ~Clock();
    Clock(const Clock &) = delete;
    Clock &operator=(const Clock &) = delete;

    void set(int64_t now); // microseconds since 1970
    void move(int64_t by) { set(now_ + by); }
    int64_t now() const { return now_; }

  private:
    int file_;
    int64_t now_ = 0;
};

/// A charge of a rule with this key. It refers to the key's text, and has arguments that equal
/// rules share.
redis_client::Charge charge_of(const rate_limit::Quota &quota, bool aligned, std::string_view key,
                               redis_client::Permit *permit = nullptr);

/// The same, of a rule that may lease units for so long: so many, if the charge is granted.
redis_client::Charge leasing_charge_of(const rate_limit::Quota &quota, bool aligned,
                                       std::string_view key,
                                       std::chrono::microseconds longest_lease, uint64_t wanted);

/// What Redis keeps under a key.
struct State {
    std::string dump; // of its value; empty: there is no key
    int64_t time_to_live_ms = 0;
    bool operator==(const State &) const = default;
};

class Redis {
  public:
    Redis(); // with nothing in it
    ~Redis();
    Redis(const Redis &) = delete;
    Redis &operator=(const Redis &) = delete;

    struct Answer {
        int type = 0;
        std::string text; // of an error, too
        int64_t number = 0;
        bool is_error() const { return type == REDIS_REPLY_ERROR; }
    };

    Answer command(std::initializer_list<std::string_view> words);
    Answer command(std::span<const std::string> words);

    /// Sends a command, and lets `read` have the reply.
    void ask(const redis_client::ByteQueue &command,
             const std::function<void(redis_client::ReplyView)> &read);

    /// Writes the answer into the charges. Returns an error's text, or "".
    std::string check(std::span<redis_client::Charge> charges);

    /// From now on, unless a script was asked for before, checks run the one for any rules.
    void ask_any_rules() { has_own_scripts_ = false; }

    /// Checks of the same rules in one run. Returns for each an error's text, or "".
    std::vector<std::string> check_run(std::span<std::vector<redis_client::Charge>> checks);

    /// A check, and what is kept under the charges' keys before and after.
    struct Seen {
        std::string error;
        std::vector<State> before, after;
    };
    enum class Looking { at_all, at_time_to_live };
    Seen check_and_look(std::span<redis_client::Charge> charges, Looking looking);

    /// What a check would find, as a peek tells; nothing where it does not.
    std::optional<rate_limit::Verdict> peek(const rate_limit::Quota &quota, bool aligned,
                                            std::string_view key,
                                            redis_client::Blocks blocks = redis_client::Blocks::no);

    /// Each returns an error's text, or "".
    std::string refund(const redis_client::Charge &charge);
    std::string release(const redis_client::Permit &permit);

    /// From now on refunds keep nothing of a bucket's past, as where its hash slot moves.
    void keep_no_past() { keeps_past_ = false; }

    /// What a request turned out to cost, beside the charge's quota and receipt.
    struct Settlement {
        const redis_client::Charge *charge;
        uint64_t units; // to charge or to give back
    };
    /// Settles all of them in one call. Returns what the script returns, a digit for each.
    std::string settle(redis_client::SettlementKind kind, std::span<const Settlement> settlements,
                       bool aligned);

    std::string renew(std::span<redis_client::Permit *const> permits);

    State state(std::string_view key);
    int64_t time_to_live_ms(std::string_view key) { return state(key).time_to_live_ms; }
    bool has(std::string_view key) { return !state(key).dump.empty(); }

    /// The clock of the host that asks, by which it says in which window of a calendar it is.
    redis_client::UnixClock host_clock = [] { return std::chrono::microseconds{0}; };

  private:
    void send(std::initializer_list<std::string_view> words);
    void send(const redis_client::ByteQueue &command);
    void send_check(std::span<redis_client::Charge> charges);
    void send(const redis_client::Script &script, const redis_client::Command &first);
    redisReply *receive_reply();
    Answer receive();
    std::string receive_check(std::span<redis_client::Charge> charges);
    void look(std::string_view key, Looking looking);
    State seen(Looking looking);

    redisContext *context_;
    redis_client::ScriptLibrary scripts_;
    bool has_own_scripts_ = true;
    bool keeps_past_ = true;
    std::set<std::string> known_; // scripts that Redis knows by name
};

} // namespace model
