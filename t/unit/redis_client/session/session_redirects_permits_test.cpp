// Permits of `concurrency` rules whose keys move from one node of a cluster to another.

#include "session_redirects_test.hpp"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {
namespace {

// The permits of `concurrency` rules

TEST_F(SessionRedirectsTest, KeepASlotWhereItIsGranted) {
    for (const std::string_view redirect : {moved_to_new, ask_new}) {
        ask(old_(), a_, permit_asked());
        const Commands commands = sent(old_());
        receive(old_(), redirect);
        const Commands again = sent(new_());
        EXPECT_EQ(again.back(), commands.back()); // by the same name
        receive(new_(), again.size() == 2 ? "+OK\r\n" + permit_granted : permit_granted);
        EXPECT_FALSE(old_().has_background_commands());
        EXPECT_TRUE(new_().has(*a_.charges()[0].permit));
        release_all(new_(), {&a_});
    }
}

TEST_F(SessionRedirectsTest, LetASlotGoThatWasNeverAskedFor) {
    closed_().disconnected(Lost::unreachable, now_);
    ask(old_(), a_, permit_asked());
    sent(old_());
    receive(old_(), "-MOVED 0 node:3\r\n");
    EXPECT_EQ(a_.results, (Results{Failure::connect}));
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
}

TEST_F(SessionRedirectsTest, ReleaseASlotWhereItsKeyIs) {
    const std::string name = take_permit(old_(), a_);
    release(old_(), a_);
    const Commands commands = sent(old_());
    EXPECT_EQ(commands.back().back(), name);
    EXPECT_EQ(receive(old_(), moved_to_new), Progress::more);
    EXPECT_EQ(sent(new_()), commands); // once
    receive(new_(), done);
}

TEST_F(SessionRedirectsTest, ReleaseASlotWithAskingWhileItsHashSlotMoves) {
    take_permit(old_(), a_);
    release(old_(), a_);
    const Commands commands = sent(old_());
    receive(old_(), ask_new);
    EXPECT_EQ(sent(new_()), (Commands{asking, commands[0]}));
    EXPECT_TRUE(old_().has_background_commands()); // the map says so still
    receive(new_(), "+OK\r\n" + std::string(done));
}

TEST_F(SessionRedirectsTest, ReleaseASlotThatAnAbandonedCheckMayHave) {
    Command *call = ask(old_(), a_, permit_asked());
    const std::string name = sent(old_()).back().back();
    old_().forget(*call, now_);
    EXPECT_EQ(sent(old_()).back().back(), name);
    receive(old_(), std::string(moved_to_new) + std::string(moved_to_new));
    const Commands commands = sent(new_());
    ASSERT_EQ(commands.size(), 1u); // the check did not follow
    EXPECT_EQ(commands[0].back(), name);
    receive(new_(), done);
}

TEST_F(SessionRedirectsTest, TryAReleaseAgainThatGotNowhere) {
    const std::string name = take_permit(old_(), a_);
    release(old_(), a_);
    for (int i = 0; i < 3; ++i) {
        sent(old_());
        receive(old_(), moved_to_new);
        sent(new_());
        receive(new_(), moved_to_old);
    }
    EXPECT_TRUE(sent(old_()).empty() && sent(new_()).empty()); // not in a loop
    EXPECT_EQ(old_().pending() + new_().pending(), 0u);
    Session &keeper = old_().has_background_commands() ? old_() : new_();
    wait_until(*keeper.next_expiry());
    EXPECT_EQ(sent(keeper).back().back(), name);
    receive(keeper, done);
}

TEST_F(SessionRedirectsTest, ForgetASlotThatCannotBeReleasedWhenItHasEnded) {
    take_permit(old_(), a_);
    release(old_(), a_);
    sent(old_());
    receive(old_(), "-MOVED 0 node:3\r\n"); // where nobody ever answers
    EXPECT_FALSE(old_().has_background_commands());
    EXPECT_TRUE(closed_().has_background_commands());
    wait_until(Time{61'000} + 11s);
    EXPECT_FALSE(closed_().has_background_commands());
}

TEST_F(SessionRedirectsTest, RenewASlotWhereItsKeyIs) {
    const std::string name = take_permit(old_(), a_);
    wait_until(Time{21'000});
    EXPECT_EQ(sent(old_()).back().back(), name);
    EXPECT_EQ(receive(old_(), moved_to_new), Progress::more);
    EXPECT_EQ(old_().next_expiry(), std::nullopt);
    wait_until(now_ + 100ms); // soon
    EXPECT_EQ(sent(new_()).back().back(), name);
    receive(new_(), done);
    wait_until(Time{30'000});
    EXPECT_TRUE(sent(new_()).empty()); // once
    release_all(new_(), {&a_});
}

TEST_F(SessionRedirectsTest, RenewSlotsWithAskingWhileTheirHashSlotMoves) {
    const std::string name = take_permit(old_(), a_, 7);
    const std::string returned = take_permit(old_(), b_, 7);
    const std::string stays = take_permit(old_(), c_, 8);
    wait_until(Time{21'000});
    const Commands commands = sent(old_());
    ASSERT_EQ(commands.size(), 2u); // one of each hash slot
    release(old_(), b_);
    EXPECT_EQ(receive(old_(), ask_new), Progress::more);
    const Commands renewals = sent(new_());
    ASSERT_EQ(renewals.size(), 2u);
    EXPECT_EQ(renewals[0], asking);
    EXPECT_EQ(renewals[1].size(), 7u); // what is released meanwhile is not renewed
    EXPECT_EQ(renewals[1].back(), name);
    EXPECT_TRUE(old_().has(*a_.charges()[0].permit)); // the map says so still
    receive(new_(), "+OK\r\n" + std::string(done));
    receive(old_(), done);
    EXPECT_EQ(sent(old_()).back().back(), returned);
    receive(old_(), done);

    wait_until(Time{22'000}); // and again, until it has moved
    const Commands again = sent(old_());
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0].back(), name);
    receive(old_(), ask_new);
    EXPECT_EQ(sent(new_()).size(), 2u);
    new_().disconnected(Lost::in_use, now_);
    release_all(old_(), {&a_, &c_});
}

// The same object may stand for a renewal that is over, and for a later one.
TEST_F(SessionRedirectsTest, RenewThoseWithAskingThatTheRenewalWasOf) {
    std::vector<Listener> early(64);
    std::vector<Listener> late(64);
    for (Listener &listener : early) {
        take_permit(old_(), listener);
    }
    wait_until(Time{11'000}); // when all were looked at
    std::vector<std::string> names;
    for (Listener &listener : late) {
        names.push_back(take_permit(old_(), listener));
    }
    wait_until(Time{21'000});
    EXPECT_EQ(sent(old_()).size(), 1u) << "of the early ones";
    receive(old_(), done);
    wait_until(Time{31'000});
    const Commands of_late = sent(old_());
    ASSERT_EQ(of_late.size(), 1u);
    EXPECT_EQ(of_late[0].back(), names.back());
    receive(old_(), ask_new);
    const Commands again = sent(new_());
    ASSERT_EQ(again.size(), 2u);
    EXPECT_EQ(again[0], asking);
    EXPECT_EQ(again[1], of_late[0]);
    receive(new_(), "+OK\r\n" + std::string(done));
    for (std::vector<Listener> *listeners : {&early, &late}) {
        for (Listener &listener : *listeners) {
            release_all(old_(), {&listener});
        }
    }
}

// The other node may refuse it, and tells this one nothing.
TEST_F(SessionRedirectsTest, RenewASlotAgainWhileItsHashSlotMoves) {
    const std::string name = take_permit(old_(), a_);
    wait_until(Time{21'000});
    for (const std::string_view reply : {tryagain, done}) {
        const Commands here = sent(old_());
        ASSERT_EQ(here.size(), 1u);
        EXPECT_EQ(here[0].back(), name);
        receive(old_(), ask_new);
        EXPECT_EQ(sent(new_()).back().back(), name);
        receive(new_(), "+OK\r\n" + std::string(reply));
        wait_until(now_ + 999ms);
        EXPECT_TRUE(sent(old_()).empty());
        wait_until(now_ + 1ms);
    }
    EXPECT_EQ(sent(old_()).size(), 1u);
    receive(old_(), done);
    wait_until(now_ + 10s);
    EXPECT_TRUE(sent(old_()).empty());
    release_all(old_(), {&a_});
}

TEST_F(SessionRedirectsTest, RenewNothingInALoop) {
    take_permit(old_(), a_);
    wait_until(Time{21'000});
    int renewals = 0; // while two nodes take each other for the master
    for (int i = 0; i < 1000; ++i) {
        now_ += 1ms;
        for (auto &session : sessions_) {
            if (session->next_expiry() && *session->next_expiry() <= now_) {
                EXPECT_FALSE(session->expire(now_));
            }
        }
        if (!sent(old_()).empty()) {
            ++renewals;
            receive(old_(), moved_to_new);
        }
        if (!sent(new_()).empty()) {
            ++renewals;
            receive(new_(), moved_to_old);
        }
    }
    EXPECT_GT(renewals, 1);
    EXPECT_LE(renewals, 30);
    Session &keeper = old_().has_background_commands() ? old_() : new_();
    release_all(keeper, {&a_});
}

// A node has some of the keys of a hash slot that moves, and renews those of one key only.
TEST_F(SessionRedirectsTest, RenewThoseOfEachKeyByThemselvesWhereTheyAreToTryAgain) {
    const Asked other = {.quota = quota_of(Algorithm::concurrency),
                         .redis_key = "rl:{z:a}:concurrency:60000:b"};
    const std::string first = take_permit(old_(), a_);
    ask(old_(), b_, other);
    const std::string of_other = sent(old_()).back().back();
    receive(old_(), permit_granted);
    const std::string last = take_permit(old_(), c_);
    wait_until(Time{21'000});
    ASSERT_EQ(sent(old_()).size(), 1u);
    receive(old_(), tryagain);
    const Commands apart = sent(old_());
    ASSERT_EQ(apart.size(), 2u);
    EXPECT_EQ(apart[0][2], "2");
    EXPECT_EQ((std::set{apart[0][7], apart[0].back()}), (std::set{first, last}));
    EXPECT_EQ(apart[1].back(), of_other);
    receive(old_(), std::string(done) + std::string(ask_new));
    EXPECT_EQ(sent(new_()), (Commands{asking, apart[1]}));
    receive(new_(), "+OK\r\n" + std::string(done));

    wait_until(Time{22'000}); // what went elsewhere is renewed again soon, until it has moved
    EXPECT_EQ(sent(old_()), Commands{apart[1]});
    receive(old_(), done);
    wait_until(Time{30'000});
    EXPECT_TRUE(sent(old_()).empty());
    release_all(old_(), {&a_, &b_, &c_});
}

TEST_F(SessionRedirectsTest, RenewThoseOfEachKeyByThemselvesWhereAllAreElsewhere) {
    const Asked other = {.quota = quota_of(Algorithm::concurrency),
                         .redis_key = "rl:{z:a}:concurrency:60000:b"};
    take_permit(old_(), a_);
    ask(old_(), b_, other);
    sent(old_());
    receive(old_(), permit_granted);
    wait_until(Time{21'000});
    ASSERT_EQ(sent(old_()).size(), 1u);
    receive(old_(), ask_new); // where one of them may have been released
    const Commands apart = sent(old_());
    ASSERT_EQ(apart.size(), 2u);
    receive(old_(), std::string(ask_new) + std::string(ask_new));
    EXPECT_EQ(sent(new_()), (Commands{asking, apart[0], asking, apart[1]}));
    receive(new_(), "+OK\r\n" + std::string(done) + "+OK\r\n" + std::string(done));
    release_all(old_(), {&a_, &b_});
}

// Refunds

TEST_F(SessionRedirectsTest, FollowTheKeyOfARefund) {
    for (const std::string_view redirect : {moved_to_new, ask_new}) {
        ask(a_, "a");
        sent(old_());
        receive(old_(), grant(7));
        old_().refund(a_.charges(), now_);
        EXPECT_TRUE(old_().has_background_commands());
        Commands commands = sent(old_());
        ASSERT_EQ(commands.size(), 1u);
        receive(old_(), redirect);
        EXPECT_FALSE(old_().has_background_commands());
        const bool asks = redirect == ask_new;
        if (asks) {
            commands.insert(commands.begin(), asking);
        }
        EXPECT_EQ(sent(new_()), commands);
        receive(new_(), std::string(asks ? "+OK\r\n" : "") + "$1\r\n1\r\n");
    }
}

// Permits of a node that another one replaces

TEST_F(SessionRedirectsTest, TakeSlotsFromANodeThatIsNotThere) {
    const std::string held = take_permit(old_(), a_, 7);
    const std::string returned = take_permit(old_(), b_, 7);
    const std::string stays = take_permit(old_(), c_, 8);
    old_().disconnected(Lost::unreachable, now_);
    release(old_(), b_);
    EXPECT_EQ(old_().hash_slots_of_permits(), HashSlotSet().set(7).set(8));

    new_().take_permits(HashSlotSet().set(7).set(9), old_());
    EXPECT_EQ(old_().hash_slots_of_permits(), HashSlotSet().set(8));
    EXPECT_EQ(new_().hash_slots_of_permits(), HashSlotSet().set(7));
    EXPECT_TRUE(new_().has(*a_.charges()[0].permit));
    wait_until(now_ + 100ms);
    std::multimap<size_t, std::string> names; // by the number of words
    for (const WireCommand &command : sent(new_())) {
        names.emplace(command.size(), command.back());
    }
    EXPECT_EQ(names, (decltype(names){{5, returned}, {7, held}})); // released, and renewed
    receive(new_(), std::string(done) + std::string(done));

    release(old_(), c_);
    log_in(old_());
    EXPECT_EQ(sent(old_()).back().back(), stays);
    receive(old_(), done);
    release_all(new_(), {&a_});
}

TEST_F(SessionRedirectsTest, SendAReleaseOnceThatIsOnItsWay) {
    take_permit(old_(), a_);
    release(old_(), a_);
    sent(old_());
    new_().take_permits(HashSlotSet().set(0), old_());
    wait_until(now_ + 200ms);
    EXPECT_TRUE(sent(new_()).empty()); // the old one may answer
    receive(old_(), done);
    EXPECT_FALSE(new_().has_background_commands());
}

TEST_F(SessionRedirectsTest, SendAReleaseAgainThatWasOnItsWayToADeadNode) {
    const std::string name = take_permit(old_(), a_);
    release(old_(), a_);
    sent(old_());
    new_().take_permits(HashSlotSet().set(0), old_());
    old_().disconnected(Lost::unreachable, now_);
    EXPECT_TRUE(new_().has_background_commands());
    wait_until(*new_().next_expiry());
    EXPECT_EQ(sent(new_()).back().back(), name);
    receive(new_(), done);
}

TEST_F(SessionRedirectsTest, LeaveASlotToItsNodeWhereTheConnectionOfItsReleaseBreaks) {
    ask(old_(), a_, permit_asked());
    const std::string name = sent(old_()).back().back();
    receive(old_(), "-OOM command not allowed\r\n"); // so Redis has it hardly
    EXPECT_EQ(sent(old_()).size(), 1u);
    new_().take_permits(HashSlotSet().set(0), old_());
    old_().disconnected(Lost::unreachable, now_);
    EXPECT_TRUE(new_().has_background_commands());
    now_ += 100ms;
    new_().expire(now_);
    EXPECT_EQ(sent(new_()).back().back(), name);
    receive(new_(), "-OOM command not allowed\r\n");
    EXPECT_FALSE(new_().has_background_commands()); // tried once
}

TEST_F(SessionRedirectsTest, KeepASlotAskedForOfANodeThatIsNotServingAnyMore) {
    ask(old_(), a_, permit_asked());
    sent(old_());
    new_().take_permits(HashSlotSet().set(0), old_()); // nothing yet
    EXPECT_FALSE(new_().has_background_commands());
    receive(old_(), permit_granted);
    EXPECT_TRUE(old_().has_background_commands());
    new_().take_permits(HashSlotSet().set(0), old_());
    EXPECT_FALSE(old_().has_background_commands());
    wait_until(now_ + 100ms);
    sent(new_());
    receive(new_(), done); // it was renewed
    release_all(new_(), {&a_});
}

TEST_F(SessionRedirectsTest, ReleaseASlotOfAnother) {
    const std::string name = take_permit(old_(), a_);
    std::vector<Charge> &charges = a_.charges();
    new_().refund(charges, now_); // as its key is there by now
    EXPECT_EQ(charges[0].permit, nullptr);
    EXPECT_EQ(sent(new_()).back().back(), name);
    EXPECT_TRUE(old_().has_background_commands());
    receive(new_(), done);
}

} // namespace
} // namespace redis_client
