// The link for checks at one Redis of a backend: what happens to them when the connection or Redis
// fails, and what the log and the counters hear of that.
#pragma once

#include "redis_client/link/link.hpp"
#include "redis_client/link/outage_log.hpp"
#include "redis_client/session/session.hpp"

#include <array>
#include <chrono>
#include <span>
#include <string_view>
#include <variant>

namespace redis_client {

class CheckLink final : public Link {
  public:
    /// Implemented by the cluster that the Redis is part of.
    class Callbacks : public Redirects {
      public:
        /// The connection or a check has failed. Perhaps the node no longer serves its keys.
        virtual void on_fault() = 0;

      protected:
        ~Callbacks() = default;
    };

    /// Begins to connect at once. If `callbacks` is null, the Redis is not part of a cluster.
    CheckLink(BackendContext &context, const MakeAddressSource &make_address_source,
              Callbacks *callbacks = nullptr);
    /// Nobody asks the Redis any more. The log is told where an outage lasts.
    ~CheckLink();

    /// These functions do what Backend says of them, at this one Redis.
    std::variant<Command *, Failure> ask(std::span<Charge> charges, CheckCallbacks &callbacks);
    void abandon(Command &check);
    void refund(std::span<Charge> charges);
    void settle(const SettlementOrder &order);
    void release(Permit &permit);
    void send_now();

    /// Takes a command, permits or settlements from another node of the cluster.
    void take_over(Command &command, Redirect::Kind kind);
    void take_permits(const HashSlotSet &of, CheckLink &from);
    void take_settlements(const HashSlotSet &of, Session &from);
    const Session &session() const { return session_; }
    Session &session() { return session_; }

  private:
    void begin_session() override { session_.connected(); }
    SessionProgress receive(std::string_view bytes) override;
    Fault problem() const override;
    bool is_ready() const override { return session_.is_ready(); }
    void on_ready() override;
    void on_quiet() override;
    void give_up(const Fault &fault) override;
    bool is_wanted() const override;
    void on_deadline() override;
    void update() override;
    void on_connecting() override;
    std::string_view stage() const override;

    void on_moved() override;
    void on_lost(const Fault &fault) override;
    void on_dismissed() override;
    ByteQueue &fill_output() override;

    void connect_if_dismissed();
    void disconnected(Session::Lost lost, std::chrono::milliseconds longest_wait);
    void end_session(Session::Lost lost);
    bool is_needed() const;
    bool is_idle() const;
    void report_loss();
    void set_timers();

    void report_check_failures();
    void begin_outage(const Fault &fault);
    std::array<OutageLog *, 3> all_faults() { return {&faults_, &key_faults_, &clock_faults_}; }
    bool is_proven_over(const OutageLog &faults) const;
    bool may_outage_end();
    void end_outages();

    Callbacks *callbacks_;
    Session session_;
    bool is_counted_ready_ = false; // the shared memory counts it as ready
    OutageLog faults_;
    // Apart from each other, because a bad key, or a rule with a calendar, may be asked for all the
    // time:
    OutageLog key_faults_;
    OutageLog clock_faults_;
    bool needs_verdict_ = false; // before an outage of faults_ may end: Redis answers with errors
    Counters reported_;          // the session's counters as far as they are logged
    std::chrono::milliseconds deadline_{0}; // for which the deadline timer was started
};

} // namespace redis_client
