// A backend that is a Redis Cluster: each check goes to the master that serves its keys.
//
// The slot map says which master serves which hash slots. It is fetched when the worker starts, and
// again whenever a node fails or says that the map is wrong, but at most once a second and over one
// connection at a time. Until the first map has come, checks wait for it.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/backend/backend.hpp"
#include "nginx_module/backend/node.hpp"
#include "nginx_module/backend/outage_log.hpp"
#include "nginx_module/backend/slot_map_fetcher.hpp"
#include "redis_client/control/cluster_map.hpp"
#include "redis_client/link/backoff.hpp"
#include "redis_client/session/session.hpp"

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace nginx_module {

class Cluster final : public Backend, Node::Callbacks, SlotMapFetcher::Callbacks {
  public:
    Cluster(const BackendConf &conf, ngx_log_t *log);
    ~Cluster() override;

    std::variant<redis_client::Command *, redis_client::Failure>
    ask(std::span<redis_client::Charge> charges, redis_client::CheckCallbacks &callbacks) override;
    void abandon(redis_client::Command &check) override;
    void hand_over(redis_client::Command &check, std::span<redis_client::Charge> charges,
                   redis_client::CheckCallbacks &callbacks) override;
    void refund(std::span<redis_client::Charge> charges) override;
    void settle(const redis_client::SettlementOrder &order) override;
    void send_now() override;
    void release(redis_client::Permit &permit) override;

    /// Returns the name of the master that serves the hash slot, or null if nobody is known to.
    const ServerAddress *master_of(uint16_t hash_slot) const {
        return serving_[hash_slot] != nullptr ? &serving_[hash_slot]->name : nullptr;
    }
    /// Makes the address of a node. A name has the addresses that the configuration or the cluster
    /// knows for it, of which `address` may be one, unless a resolver finds others.
    ServerAddress name_of(std::string_view host, in_port_t port,
                          std::string_view address = {}) const;
    /// Fetches the slot map again, because it may be wrong.
    void want_map();

  private:
    /// A master of the cluster. Its node is made, and connects, when it is needed first.
    struct Master {
        explicit Master(ServerAddress a_name) : name(std::move(a_name)) {}

        ServerAddress name;
        std::unique_ptr<Node> node;
        redis_client::HashSlotSet serves;
    };

    void on_redirect(const redis_client::Session &from, const redis_client::Redirect &to) override;
    void ask_again(redis_client::Command &call, const redis_client::Session &from,
                   const redis_client::Redirect &to) override;
    void on_fault() override;
    void on_map(const redis_client::ClusterMap &map, std::string_view host) override;
    void on_no_map(std::string_view what, std::string_view detail) override;

    Master *master_at(std::string_view host, in_port_t port, std::string_view address);
    Master *target_of(const redis_client::Redirect &to, const redis_client::Session &from);
    Node &node_of(Master &master);
    Node *node_where(const std::function<bool(const redis_client::Session &)> &is_it) const;
    /// Returns the node that has the command or the permit; null if none has.
    Node *node_that_has(const auto &held) const {
        return node_where([&](const auto &session) { return session.has(held); });
    }
    void serve(uint16_t hash_slot, Master &by);
    void move_permits(Master &to);
    void move_settlements(redis_client::Session &from);
    void retire_masters();
    void ask_waiting();
    bool is_well() const;

    void on_map_timer();
    void on_deadline();
    void update_waiting();

    const BackendConf &conf_;
    ngx_log_t *log_;
    std::vector<std::unique_ptr<Master>> masters_;
    std::array<Master *, redis_client::hash_slots> serving_{}; // null: no master serves it

    redis_client::Session waiting_;  // has the checks that no node can take; never connected
    uint64_t reported_failures_ = 0; // failures of waiting_ that the log knows
    ngx_event_t deadline_timer_{};   // the next deadline of waiting_

    SlotMapFetcher fetcher_;
    std::chrono::milliseconds fetched_{0}; // when the last fetch began
    bool is_wanted_again_ = false;         // a fault was seen since the fetch began
    redis_client::Backoff backoff_;
    ngx_event_t map_timer_{};
    OutageLog faults_;
};

} // namespace nginx_module
