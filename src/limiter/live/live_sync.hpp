// Brings what operators have set from Redis into the shared memory of this host. One worker of the
// host asks each backend for all of them; the others look now and then whether it still does.
#pragma once

#include "limiter/configuration.hpp"
#include "limiter/live/followed_zones.hpp"
#include "limiter/live/live_log.hpp"
#include "redis_client/control/live_follower.hpp"
#include "redis_client/link/backend.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace limiter {

class LiveSync {
  public:
    /// Begins with the next turn of the event loop. The zones and rules are those of the backend.
    /// All outlive this object but the lists.
    LiveSync(const redis_client::BackendSettings &settings, redis_client::Backend &backend,
             std::span<const Zone *const> zones, std::span<const Rule *const> rules,
             redis_client::World &world, LiveLog &log);
    ~LiveSync();
    LiveSync(const LiveSync &) = delete;
    LiveSync &operator=(const LiveSync &) = delete;

  private:
    /// A command that asks for something, or registers the rules.
    class Question final : public redis_client::ControlCommand {
      public:
        using Write = bool (LiveSync::*)(redis_client::ByteQueue &) const;
        using Take = void (LiveSync::*)(redis_client::ReplyView);

        Question(LiveSync &sync, Write write, Take take);
        void ask();
        void cancel();
        bool is_asked() const { return is_asked_; }
        /// When it was sent, by precise_now().
        std::chrono::microseconds sent() const { return sent_; }

        bool write(redis_client::ByteQueue &out) const override;
        void on_reply(redis_client::ReplyView reply) override;
        void on_failure(bool was_sent, const redis_client::Fault &fault) override;

      private:
        LiveSync &sync_;
        const Write write_;
        const Take take_;
        bool is_asked_ = false;
        mutable std::chrono::microseconds sent_{0};
    };

    bool write_time(redis_client::ByteQueue &out) const;
    bool write_registration(redis_client::ByteQueue &out) const;
    bool write_purge(redis_client::ByteQueue &out) const;
    bool write_name_count(redis_client::ByteQueue &out) const;
    bool write_record_count(redis_client::ByteQueue &out) const;
    bool write_head(redis_client::ByteQueue &out) const;
    bool write_page(redis_client::ByteQueue &out) const;
    bool write_back(redis_client::ByteQueue &out) const;
    void take_time(redis_client::ReplyView reply);
    void take_registration(redis_client::ReplyView reply);
    void take_purge(redis_client::ReplyView reply);
    void take_name_count(redis_client::ReplyView reply);
    void take_record_count(redis_client::ReplyView reply);
    void take_head(redis_client::ReplyView reply);
    void take_page(redis_client::ReplyView reply);
    void take_written_back(redis_client::ReplyView reply);

    void on_tick();
    void on_refusal(const Question &question, std::string_view error);
    void on_caught_up();
    void set_trouble(redis_client::LiveTrouble trouble, std::string_view why);
    bool keep_claim();
    void lose_claim();
    void poll();
    bool is_asking() const;
    void go_on(redis_client::LiveStep step);
    const std::vector<const rate_limit::Rule *> &rules_of(redis_client::Registry registry) const {
        return rules_[static_cast<size_t>(registry)];
    }

    const redis_client::BackendSettings &settings_;
    redis_client::Backend &backend_;
    redis_client::World &world_;
    LiveLog &log_;
    /// One for each counter, by redis_client::Registry. One of the lists may be empty.
    std::array<std::vector<const rate_limit::Rule *>, 2> rules_;
    FollowedZones zones_;
    redis_client::LiveFollower follower_;

    bool has_claim_ = false;
    bool has_clock_ = false;     // Redis has told its time since the claim
    bool is_registered_ = false; // it has taken the rules since then
    std::chrono::milliseconds next_poll_{0};
    std::chrono::milliseconds next_registration_{0};
    std::chrono::milliseconds take_late_time_from_{0};
    std::chrono::milliseconds late_from_{0}; // if nothing is learned until then
    std::string last_failure_ = "no answer"; // of a question
    uint64_t connection_ = 0;                // the one that answered last
    std::optional<long long> name_count_;    // of the store, at the last poll
    std::optional<long long> record_count_;
    int polls_of_older_ = 0;               // that found the newest to be lost, in a row
    uint64_t since_ = 0;                   // what the page is asked for
    redis_client::Registry registering_{}; // where rules are registered now
    redis_client::Registry purged_{};      // where the next purge goes on,
    uint64_t purged_to_ = 0;               // and from which cursor

    Question time_;
    Question registration_;
    Question purge_; // forgets a part of the counters that no host registers any more
    Question name_count_query_;
    Question record_count_query_;
    Question head_;
    Question page_;
    Question writing_back_;
    std::unique_ptr<redis_client::Timer> timer_;
};

} // namespace limiter
