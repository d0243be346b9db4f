// A session that asks for permits of a `concurrency` rule.
#pragma once

#include "session_test.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace redis_client {

class SessionPermitsTest : public SessionTest {
  protected:
    static inline const std::string permit_key = "rl:{z:a}:concurrency:60000";
    static inline const std::string grants = answer({99});
    static inline const std::string denies = answer({-1});
    static constexpr std::string_view done = "$-1\r\n";

    static Asked permit_asked(uint64_t cost = 1) {
        return {.quota = quota_of(Algorithm::concurrency, cost), .redis_key = permit_key};
    }

    static const Script &check_of_permit() {
        static const Script one = check_script(shape_of(Algorithm::concurrency));
        return one;
    }

    static const Script &release_script() {
        static const Script one = refund_script(Algorithm::concurrency);
        return one;
    }

    static WireCommand release_of(const std::string &name) {
        return {"EVALSHA", release_script().sha1, "1", permit_key, name};
    }

    static WireCommand renewal_of(const std::vector<std::string> &names) {
        WireCommand command = {"EVAL", renew_script().source, std::to_string(names.size())};
        command.insert(command.end(), names.size(), permit_key);
        for (const std::string &name : names) {
            command.insert(command.end(), {"60000000", "65001", name});
        }
        return command;
    }

    SessionPermitsTest() {
        SessionSettings settings;
        settings.shapes = {shape_of(Algorithm::concurrency)};
        settings.rare_shapes = rare_shapes();
        start(settings);
    }

    /// Asks for a permit: its name, where it was sent.
    std::string ask_for_permit(Listener &listener) {
        check_ = ask(listener, {permit_asked()});
        const Commands commands = sent();
        return commands.empty() ? "" : commands.back().back();
    }

    /// A permit that is held: its name.
    std::string take_permit(Listener &listener) {
        const std::string name = ask_for_permit(listener);
        receive(grants);
        EXPECT_NE(listener.charges()[0].permit, nullptr);
        return name;
    }

    void release(Listener &listener) {
        session_->release(*std::exchange(listener.charges()[0].permit, nullptr), now_);
    }

    /// Gives back what is still held, so that each test may end with it.
    void release_all(std::vector<Listener> &listeners) {
        for (Listener &listener : listeners) {
            release(listener);
        }
        for (size_t i = 0; i < listeners.size(); ++i) {
            receive(done);
        }
    }

    /// Lets time pass, and nothing else happen.
    void wait_until(Time time) {
        while (session_->next_expiry() && *session_->next_expiry() <= time) {
            now_ = *session_->next_expiry();
            ASSERT_FALSE(session_->expire(now_));
        }
        now_ = time;
    }

    /// Leaves no room for a command.
    void fill_output() {
        const std::string large(1000, 'x');
        while (write_command(session_->output(), {"PING", large})) {
        }
        while (write_command(session_->output(), {"PING"})) {
        }
    }

    Command *check_ = nullptr; // the last that was asked
};

} // namespace redis_client
