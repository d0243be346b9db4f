// A backend that is a Redis Cluster: each check goes to the master that serves its keys.
//
// The slot map says which master serves which hash slots. It is fetched when the worker starts, and
// again whenever a node fails or says that the map is wrong, but at most once a second and over one
// connection at a time. Until the first map has come, checks wait for it.
#pragma once

#include "redis_client/link/backend.hpp"
#include "redis_client/link/backoff.hpp"
#include "redis_client/link/check_link.hpp"
#include "redis_client/link/control_link.hpp"
#include "redis_client/link/outage_log.hpp"
#include "redis_client/link/slot_map_query.hpp"
#include "redis_client/session/session.hpp"

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace redis_client {

class Cluster final : public Backend,
                      CheckLink::Callbacks,
                      ControlLink::Callbacks,
                      SlotMapQuery::Callbacks {
  public:
    Cluster(const BackendSettings &settings, World &world, BackendLog &log);
    ~Cluster() override;

    std::variant<Command *, Failure> ask(std::span<Charge> charges,
                                         CheckCallbacks &callbacks) override;
    void abandon(Command &check) override;
    void refund(std::span<Charge> charges) override;
    void settle(const SettlementOrder &order) override;
    void release(Permit &permit) override;
    void run(ControlCommand &command) override;
    void cancel(const ControlCommand &command) override;
    void send_now() override;

  private:
    /// A node of the cluster, which is a master that serves hash slots, or that another node has
    /// named. Its links are made, and connect, when they are needed first.
    struct Master {
        explicit Master(ServerAddress a_name) : name(std::move(a_name)) {}

        ServerAddress name;
        std::unique_ptr<CheckLink> checks;
        std::unique_ptr<ControlLink> control;
        HashSlotSet serves;
    };

    void on_redirect(const Session &from, const Redirect &to) override;
    void ask_again(Command &command, const Session &from, const Redirect &to) override;
    bool redirect(const ControlSession &from, ControlCommand &command, const Redirect &to) override;
    void on_fault() override;
    void on_map(const ClusterMap &map, std::string_view host) override;
    void on_no_map(const Fault &fault) override;

    ServerAddress name_of(std::string_view host, in_port_t port, std::string_view address) const;
    Master *master_at(std::string_view host, in_port_t port, std::string_view address = {});
    Master *target_of(const Redirect &to, const auto &is_sender);
    Master *target_of(const Redirect &to, const Session &from);
    CheckLink &checks_of(Master &master);
    ControlLink &control_of(Master &master);
    Link::MakeAddressSource address_source_of(const Master &master) const;
    CheckLink *link_where(const std::function<bool(const Session &)> &is_it) const;
    /// Returns the link that has the command or the permit; null if none has.
    CheckLink *link_that_has(const auto &held) const {
        return link_where([&](const auto &session) { return session.has(held); });
    }
    void want_map();
    void serve(uint16_t hash_slot, Master &by);
    void note_moved(uint16_t hash_slot, Master *to);
    void move_permits(Master &to);
    void move_settlements(Session &from);
    void retire_masters();
    void ask_waiting();
    void run_unserved();
    void update_unserved();
    bool is_well() const;

    void on_map_timer();
    void on_deadline();
    void update_waiting();

    Session waiting_;                       // has the checks that no node can take; never connected
    Counters reported_;                     // of waiting_, that the log knows
    std::unique_ptr<Timer> deadline_timer_; // the next deadline of waiting_

    std::vector<ControlCommand *> unserved_; // while nobody serves their keys
    std::unique_ptr<Timer> unserved_timer_;  // when to look for who does

    SlotMapQuery map_query_;
    std::chrono::milliseconds fetched_{0}; // when the last fetch began
    bool is_wanted_again_ = false;         // a fault was seen since the fetch began
    Backoff backoff_;
    std::unique_ptr<Timer> map_timer_;
    OutageLog faults_;

    std::array<Master *, hash_slots> serving_{}; // null: no master serves it
    // They come last because they end first: what fails with their links may still use the others.
    std::vector<std::unique_ptr<Master>> masters_;
};

} // namespace redis_client
