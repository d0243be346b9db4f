// The nodes of a cluster, whose sessions redirect to each other.
#pragma once

#include "session_test.hpp"
#include "unit/redis_client/different_bytes.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace redis_client {

/// Two nodes, `node:1` and `node:2`, and a third that is never connected. All keys are in hash slot
/// 0 where a test does not say otherwise.
class SessionRedirectsTest : public testing::Test, public Redirects {
  protected:
    static constexpr std::string_view moved_to_new = "-MOVED 0 node:2\r\n";
    static constexpr std::string_view moved_to_old = "-MOVED 0 node:1\r\n";
    static constexpr std::string_view ask_new = "-ASK 0 node:2\r\n";
    static constexpr std::string_view tryagain =
        "-TRYAGAIN Multiple keys request during rehashing of permit\r\n";
    static constexpr std::string_view done = "$-1\r\n"; // to a release, a renewal or a refund
    static inline const std::string permit_granted = answer({99});
    static inline const WireCommand asking = {"ASKING"};

    static Asked permit_asked() {
        return {.quota = quota_of(Algorithm::concurrency),
                .redis_key = "rl:{z:a}:concurrency:60000"};
    }

    /// With the arguments that all share, so that those of one turn go in one run.
    static Asked shared(const std::string &key) {
        static const WireWords arguments = check_arguments(quota_of(Algorithm::sliding_log), false);
        Asked one = asked(key);
        one.arguments = &arguments;
        return one;
    }

    /// To a run of two.
    static std::string grants(int64_t remaining, int64_t other_remaining) {
        return bulk_string(packed({time_of_redis, remaining, 0, 0, 0, //
                                   time_of_redis, other_remaining, 0, 0, 0}));
    }

    static SessionSettings settings_of_nodes() {
        SessionSettings settings = default_settings();
        settings.shapes.push_back(shape_of(Algorithm::concurrency));
        return settings;
    }

    void SetUp() override { start(settings_of_nodes()); }

    void TearDown() override {
        for (const auto &session : sessions_) {
            EXPECT_EQ(session->pending(), 0u);
            EXPECT_FALSE(session->has_background_commands());
            EXPECT_FALSE(session->has_waiting());
            EXPECT_EQ(session->next_expiry(), std::nullopt);
        }
        EXPECT_EQ(group_->commands.in_use(), 0u);
        EXPECT_EQ(group_->background_commands, 0u);
        EXPECT_EQ(group_->permits.in_use(), 0u);
    }

    void start(const SessionSettings &settings) {
        for (auto &session : sessions_) {
            session.reset();
        }
        group_.emplace(settings, different_bytes, any_time);
        for (auto &session : sessions_) {
            session.emplace(*group_, 1, this);
        }
        log_in(old_());
        log_in(new_());
    }

    Session &old_() { return *sessions_[0]; }
    Session &new_() { return *sessions_[1]; }
    Session &closed_() { return *sessions_[2]; }

    void log_in(Session &session) {
        session.connected();
        const size_t commands = sent(session).size();
        for (size_t i = 1; i < commands; ++i) {
            EXPECT_EQ(receive(session, "+sha1\r\n"), Progress::more);
        }
        EXPECT_EQ(receive(session, "+sha1\r\n"), Progress::ready);
    }

    Commands sent(Session &session) {
        session.flush(now_);
        const std::string bytes(session.output().bytes());
        session.output().consume(bytes.size());
        return parse_commands(bytes);
    }

    Progress receive(Session &session, std::string_view bytes) {
        return session.received(bytes, now_);
    }

    Command *ask(Session &session, Listener &listener, const Asked &one, uint16_t hash_slot = 0) {
        std::vector<Charge> &charges = listener.new_charges({one});
        charges[0].hash_slot = hash_slot;
        const auto answer = session.ask(charges, listener, now_);
        Command *const *check = std::get_if<Command *>(&answer);
        EXPECT_NE(check, nullptr);
        return check != nullptr ? *check : nullptr;
    }
    Command *ask(Listener &listener, const std::string &key) {
        return ask(old_(), listener, shared(key));
    }

    /// A permit that is held: its name.
    std::string take_permit(Session &session, Listener &listener, uint16_t hash_slot = 0) {
        ask(session, listener, permit_asked(), hash_slot);
        const std::string name = sent(session).back().back();
        EXPECT_EQ(receive(session, permit_granted), Progress::more);
        EXPECT_NE(listener.charges()[0].permit, nullptr);
        return name;
    }

    void release(Session &session, Listener &listener) {
        session.release(*std::exchange(listener.charges()[0].permit, nullptr), now_);
    }

    /// Ends what a test leaves held, where Redis says nothing more of it.
    void release_all(Session &session, std::initializer_list<Listener *> listeners) {
        for (Listener *listener : listeners) {
            release(session, *listener);
        }
        sent(session);
        for (size_t i = 0; i < listeners.size(); ++i) {
            EXPECT_EQ(receive(session, done), Progress::more);
        }
    }

    /// Lets time pass, and all timers run.
    void wait_until(Time time) {
        for (bool all_is_quiet = false; !all_is_quiet;) {
            all_is_quiet = true;
            for (auto &session : sessions_) {
                const auto next = session->next_expiry();
                if (next && *next <= time) {
                    now_ = std::max(now_, *next);
                    EXPECT_FALSE(session->expire(now_));
                    all_is_quiet = false;
                }
            }
        }
        now_ = time;
    }

    Time now_{1000};
    Listener a_, b_, c_;
    std::optional<SessionGroup> group_;
    std::array<std::optional<Session>, 3> sessions_; // at their ports, counted from 1
    std::vector<std::pair<const Session *, Redirect::Kind>> redirects_; // all that were told

  private:
    void on_redirect(const Session &from, const Redirect &to) override {
        redirects_.emplace_back(&from, to.kind);
        if (to.kind == Redirect::Kind::moved) { // the permits of its rules follow
            for (auto &session : sessions_) {
                Session &target = *sessions_[to.port - 1];
                if (&*session != &target) {
                    target.take_permits(HashSlotSet().set(to.hash_slot), *session);
                }
            }
        }
    }
    void ask_again(Command &call, const Session & /*from*/, const Redirect &to) override {
        sessions_[to.port - 1]->take_over(call, to.kind, now_);
    }
};

} // namespace redis_client
