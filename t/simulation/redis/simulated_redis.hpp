// A Redis of a simulation: it speaks RESP, runs the scripts that it is sent, and has a clock of its
// own, which may step.
#pragma once

#include "replay/redis/embedded_redis.hpp"
#include "simulation/audited_rule.hpp"
#include "simulation/fault_counts.hpp"
#include "simulation/redis/checked_keys.hpp"
#include "simulation/redis/histories.hpp"
#include "simulation/redis/server.hpp"
#include "simulation/timeline.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace simulation {

class SimulatedRedis final : public Server {
  public:
    /// What it does with commands, until it is told otherwise.
    enum class Mood : uint8_t {
        well,
        loading,
        busy,
        master_down,
        misconf,
        no_replicas,
        out_of_memory,
        not_authenticated, // as behind a proxy that has changed the server
        not_permitted,
        unknown_error,
        cluster_down, // of a node of a cluster, as the next one
        cross_slot,
    };
    static constexpr size_t moods = 12;
    static constexpr size_t moods_of_all = 9; // that any Redis can be in, but for the first

    /// How it wants to be talked to.
    struct Access {
        std::string username;
        std::string password; // empty: none is wanted
        uint64_t database = 0;
    };

    /// The cluster that it is a node of.
    class Cluster {
      public:
        using Words = std::span<const std::string_view>;
        /// Returns the error by which the node answers a command with these keys, if it does.
        virtual std::optional<std::string> refuse(SimulatedRedis &node, Peer &peer, Words keys) = 0;
        /// Returns the reply to CLUSTER SLOTS.
        virtual std::string slots(const SimulatedRedis &node) = 0;

      protected:
        ~Cluster() = default;
    };

    /// Is told what it does with its data, so that a real Redis can be asked, too.
    class Observer {
      public:
        virtual void replied(Time clock, std::string_view command, std::string_view reply) = 0;
        virtual void lost_data() = 0;
        virtual void forgot_scripts() = 0;

      protected:
        ~Observer() = default;
    };

    /// `ahead` is what its clock is ahead of the timeline.
    SimulatedRedis(const Timeline &timeline, FaultCounts &counts, std::string address, Time ahead)
        : Server(std::move(address)), timeline_(timeline), counts_(counts), ahead_(ahead) {}

    std::string take(Peer &peer, std::string_view bytes) override;

    void set_access(Access access) { access_ = std::move(access); }
    void set_password(const std::string &password) { access_.password = password; }
    const Access &access() const { return access_; }
    void set_cluster(Cluster *cluster) { cluster_ = cluster; }
    void set_observer(Observer *observer) { observer_ = observer; }
    void set_mood(Mood mood);
    std::string_view refusal_of_writes(Time since) const override;
    /// Somebody else writes a value to the key, of a type that no script of ours gives it.
    void spoil(const std::string &name);
    bool has_spoilt(std::string_view key, Time since) const override;
    /// It is a replica of the Redis at that address, or a master if that is empty.
    void set_master(std::string address);
    bool is_master() const { return master_.empty(); }
    /// The next reply of a script will be none.
    void lie_once(uint64_t how) { lie_ = how; }
    void stop_lying() { lie_.reset(); }
    void forget_scripts() {
        engine_->forget_scripts();
        if (observer_ != nullptr) {
            observer_->forgot_scripts();
        }
    }
    /// It is started again without its data.
    void lose_data();

    Time now() const { return timeline_.now() + ahead_; }
    Time ahead() const { return ahead_; }
    void step_clock(Time by) { ahead_ += by; }
    /// Returns when a script of the key ran that has read this time from its clock, not earlier
    /// than `since`; nothing if none did.
    std::optional<Time> ran_at(std::string_view key, Time clock, Time since) const;
    /// Returns when a script of the key has run since then, if one has, and no other one.
    std::optional<Time> only_run_of(std::string_view key, Time since) const;

    /// Its keys, after those that have expired have gone.
    replay::KeyStore &keys();
    /// Is called when a script has run, for each of its keys.
    std::function<void(ScriptRun, std::string_view key)> on_run = [](ScriptRun, std::string_view) {
    };
    /// Is called when a client has deleted a key.
    std::function<void(std::string_view key)> on_deleted = [](std::string_view /*key*/) {};
    /// A worker did what it must not.
    std::function<void(std::string_view what)> on_misbehaviour = [](std::string_view /*what*/) {};

    /// Returns the keys that were written since the last call and will be gone too early, or never,
    /// but for the excused ones.
    std::vector<std::string> judge_lives(const CheckedKeys::Names &excused) {
        return checked_keys_.judge_lives(keys(), texts_, excused);
    }

    Histories &histories() { return histories_; }
    const Histories &histories() const { return histories_; }
    uint64_t commands() const { return commands_; }

    /// From now on it remembers what was written, so that copies of it may lag.
    void remember_writes();
    bool remembers_writes() const { return written_on_.has_value(); }
    /// Keys have changed, not by commands: copies begin with what they are now.
    void keys_were_changed() {
        if (written_on_) {
            remember_writes();
        }
    }
    /// What a copy has that knows all that was written up to `when`, or up to the last call of
    /// remember_writes().
    struct Copy {
        std::unique_ptr<replay::EmbeddedRedis> engine;
        Time copied{0};
    };
    Copy copy_at(Time when) const;
    void become(Copy copy);

  private:
    using Words = std::vector<std::string_view>;

    std::string reply(Peer &peer, const Words &words, std::string_view command);
    std::string reply_to_login(Peer &peer, const Words &words);
    std::string run(Peer &peer, const Words &words, std::string_view command);
    void note_run(const Words &words, std::string_view command, const replay::Answer &answer);
    std::string role() const;
    void update_refusal();

    struct Write {
        Time when;
        Time clock;
        replay::Refusal refusal;
        std::string command;
    };
    struct Run {
        Time clock;
        Time when;
        std::vector<std::string> keys;
    };

    const Timeline &timeline_;
    FaultCounts &counts_;
    Time ahead_;
    Access access_;
    Cluster *cluster_ = nullptr;
    Observer *observer_ = nullptr;
    Mood mood_ = Mood::well;
    Time mood_since_{0};
    std::string master_;
    std::optional<uint64_t> lie_;
    uint64_t commands_ = 0;
    std::unique_ptr<replay::EmbeddedRedis> engine_ = std::make_unique<replay::EmbeddedRedis>();
    std::deque<Run> runs_; // of the last seconds
    struct Spoilt {
        Time when;
        size_t type; // of the value then
    };
    std::map<std::string, Spoilt, std::less<>> spoilt_; // by key
    Histories histories_;
    CheckedKeys checked_keys_;
    CheckedKeys::Texts texts_;                   // of scripts, by their SHA-1
    std::optional<replay::KeyStore> written_on_; // what the writes were written on
    Time written_since_{0};
    std::vector<Write> writes_;
};

} // namespace simulation
