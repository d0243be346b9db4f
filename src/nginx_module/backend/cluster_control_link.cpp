#include "nginx_module/backend/cluster_control_link.hpp"

#include "nginx_module/backend/resolved_address.hpp"
#include "nginx_module/timer.hpp"
#include "nginx_module/util.hpp"

#include <algorithm>
#include <utility>

namespace nginx_module {

using redis_client::ControlCommand;
using redis_client::Redirect;

namespace {

constexpr std::chrono::milliseconds between_looks{50};

} // namespace

ClusterControlLink::ClusterControlLink(const BackendConf &conf, Cluster &cluster, ngx_log_t *log)
    : conf_(conf), cluster_(cluster), log_(log) {
    set_up_timer(timer_, this, log, [](ngx_event_t *event) noexcept {
        static_cast<ClusterControlLink *>(event->data)->on_timer();
    });
}

ClusterControlLink::~ClusterControlLink() {
    stop_timer(timer_);
}

void ClusterControlLink::run(ControlCommand &command) {
    command.begin(now());
    if (const ServerAddress *master = cluster_.master_of(command.hash_slot)) {
        connection_to(*master).run(command);
        return;
    }
    cluster_.want_map();
    waiting_.push_back(&command);
    set_timer();
}

void ClusterControlLink::cancel(const ControlCommand &command) {
    std::erase(waiting_, &command);
    (void)std::ranges::any_of(nodes_,
                              [&](const Node &node) { return node.connection->cancel(command); });
    set_timer();
}

/// Sends the commands whose keys are served by now, and fails those that have waited too long.
void ClusterControlLink::on_timer() {
    for (ControlCommand *command : std::exchange(waiting_, {})) {
        if (const ServerAddress *master = cluster_.master_of(command->hash_slot)) {
            connection_to(*master).run(*command);
        } else {
            waiting_.push_back(command);
        }
    }
    const auto is_late = [](const ControlCommand *one) { return one->deadline() <= now(); };
    for (auto late = waiting_.begin();
         (late = std::ranges::find_if(waiting_, is_late)) != waiting_.end();) {
        ControlCommand &command = **late;
        waiting_.erase(late);
        command.on_failure(false, "nobody serves the keys", {});
    }
    set_timer();
}

void ClusterControlLink::set_timer() {
    if (waiting_.empty()) {
        stop_timer(timer_);
    } else if (!timer_.timer_set) {
        start_timer(timer_, between_looks);
    }
    timer_.cancelable = std::ranges::any_of(waiting_, &ControlCommand::holds_worker) ? 0 : 1;
}

bool ClusterControlLink::redirect(ControlConnection &from, ControlCommand &command,
                                  const Redirect &to) {
    if (to.kind == Redirect::Kind::moved) {
        cluster_.want_map();
    }
    const std::string host(to.host.empty() ? from.host() : to.host);
    const ServerAddress name = cluster_.name_of(host, to.port);
    if (name.addresses.empty() && conf_.resolver == nullptr) {
        return false;
    }
    connection_to(name).take_over(command, to.kind);
    return true;
}

void ClusterControlLink::on_fault() {
    cluster_.want_map();
}

ControlConnection &ClusterControlLink::connection_to(const ServerAddress &name) {
    const auto known = std::ranges::find_if(
        nodes_, [&](const Node &node) { return node.host == name.host && node.port == name.port; });
    if (known != nodes_.end()) {
        return *known->connection;
    }
    std::erase_if(nodes_, [](const Node &node) { return node.connection->is_unused(); });
    ControlConnection::Callbacks &self = *this;
    auto connection = std::make_unique<ControlConnection>(
        conf_, log_,
        [&](AddressSource::Callbacks &callbacks) {
            return std::make_unique<ResolvedAddress>(callbacks, conf_.resolver, name);
        },
        &self);
    nodes_.push_back({.host = name.host, .port = name.port, .connection = std::move(connection)});
    return *nodes_.back().connection;
}

} // namespace nginx_module
