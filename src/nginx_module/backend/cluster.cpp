#include "nginx_module/backend/cluster.hpp"

#include "nginx_module/timer.hpp"
#include "nginx_module/util.hpp"

#include <algorithm>
#include <utility>

namespace nginx_module {

using redis_client::Command;
using redis_client::Redirect;
using redis_client::Session;

namespace {

constexpr std::chrono::milliseconds between_maps{1000};

} // namespace

Cluster::Cluster(const BackendConf &conf, ngx_log_t *log)
    : Backend(conf, ngx_pid),
      conf_(conf),
      log_(log),
      waiting_(group_, static_cast<uint32_t>(ngx_random())),
      fetcher_(*this, conf, log),
      faults_(conf.name, log) {
    set_up_timer(deadline_timer_, this, log, [](ngx_event_t *event) noexcept {
        static_cast<Cluster *>(event->data)->on_deadline();
    });
    set_up_timer(map_timer_, this, log, [](ngx_event_t *event) noexcept {
        static_cast<Cluster *>(event->data)->on_map_timer();
    });
    on_map_timer();
}

Cluster::~Cluster() {
    stop_timer(deadline_timer_);
    stop_timer(map_timer_);
    waiting_.disconnected(Session::Lost::unreachable, now()); // fails what still waits
}

std::variant<Command *, redis_client::Failure>
Cluster::ask(std::span<redis_client::Charge> charges, redis_client::CheckCallbacks &callbacks) {
    if (Master *master = serving_[charges.front().hash_slot]) {
        return node_of(*master).ask(charges, callbacks);
    }
    const auto asked = waiting_.ask(charges, callbacks, now());
    if (!masters_.empty()) {
        want_map();
    }
    update_waiting();
    return asked;
}

void Cluster::abandon(Command &check) {
    if (Node *node = node_that_has(check)) {
        node->abandon(check);
    } else {
        waiting_.abandon(check, now());
        update_waiting();
    }
}

void Cluster::hand_over(Command &check, std::span<redis_client::Charge> charges,
                        redis_client::CheckCallbacks &callbacks) {
    if (Node *node = node_that_has(check)) {
        node->hand_over(check, charges, callbacks);
    } else {
        waiting_.hand_over(check, charges, callbacks, now());
    }
}

void Cluster::refund(std::span<redis_client::Charge> charges) {
    if (Master *master = serving_[charges.front().hash_slot]) {
        node_of(*master).refund(charges);
    } else {
        waiting_.refund(charges, now()); // until a map says who serves the keys
    }
}

void Cluster::settle(const redis_client::SettlementOrder &order) {
    if (Master *master = serving_[order.charge.hash_slot]) {
        node_of(*master).settle(order);
    } else {
        waiting_.settle(order); // until a map says who serves the key
    }
}

void Cluster::send_now() {
    for (const auto &master : masters_) {
        if (master->node != nullptr) {
            master->node->send_now();
        }
    }
}

void Cluster::release(redis_client::Permit &permit) {
    if (Node *node = node_that_has(permit)) {
        node->release(permit);
    }
}

Node *Cluster::node_where(const std::function<bool(const Session &)> &is_it) const {
    for (const auto &master : masters_) {
        if (master->node != nullptr && is_it(master->node->session())) {
            return master->node.get();
        }
    }
    return nullptr;
}

Node &Cluster::node_of(Master &master) {
    if (master.node == nullptr) {
        Node::Callbacks &self = *this;
        master.node = std::make_unique<Node>(
            conf_, group_, counters_, log_,
            [&](AddressSource::Callbacks &callbacks) {
                return std::make_unique<ResolvedAddress>(callbacks, conf_.resolver, master.name);
            },
            &self);
    }
    return *master.node;
}

ServerAddress Cluster::name_of(std::string_view host, in_port_t port,
                               std::string_view address) const {
    ServerAddress name{
        .host = std::string(host), .port = port, .addresses = literal_address(host, port)};
    if (!name.addresses.empty()) {
        return name;
    }
    auto &addresses = conf_.resolver != nullptr ? name.spare : name.addresses;
    const auto server = std::ranges::find(conf_.servers, host, &ServerAddress::host);
    if (server != conf_.servers.end()) {
        for (const Address &known : server->known()) {
            addresses.push_back(known.with_port(port));
        }
    } else {
        addresses = literal_address(address, port);
    }
    return name;
}

/// Returns the master of that name, and makes it if it is new. Returns null if the name has no
/// address, or if there are already as many masters as a cluster may have.
Cluster::Master *Cluster::master_at(std::string_view host, in_port_t port,
                                    std::string_view address) {
    const auto known = std::ranges::find_if(masters_, [&](const auto &master) {
        return master->name.host == host && master->name.port == port;
    });
    if (known != masters_.end()) {
        return known->get();
    }
    ServerAddress name = name_of(host, port, address);
    if ((name.addresses.empty() && conf_.resolver == nullptr) ||
        masters_.size() == redis_client::ClusterMap::most_masters) {
        return nullptr;
    }
    masters_.push_back(std::make_unique<Master>(std::move(name)));
    return masters_.back().get();
}

Cluster::Master *Cluster::target_of(const Redirect &to, const Session &from) {
    if (!to.host.empty()) {
        return master_at(to.host, to.port, {});
    }
    const Node *node = node_where([&](const Session &session) { return &session == &from; });
    return master_at(node->host(), to.port, {});
}

void Cluster::on_redirect(const Session &from, const Redirect &to) {
    if (to.kind == Redirect::Kind::ask) {
        return;
    }
    if (Master *master = target_of(to, from)) {
        serve(to.hash_slot, *master);
        move_permits(*master);
    }
    want_map();
}

void Cluster::ask_again(Command &call, const Session &from, const Redirect &to) {
    if (Master *master = target_of(to, from)) {
        node_of(*master).take_over(call, to.kind);
    } else {
        waiting_.take_over(call, to.kind, now());
        update_waiting();
    }
}

void Cluster::serve(uint16_t hash_slot, Master &by) {
    if (Master *before = std::exchange(serving_[hash_slot], &by)) {
        before->serves.reset(hash_slot);
    }
    by.serves.set(hash_slot);
}

/// Moves the permits of `concurrency` rules to the node that now serves their keys.
void Cluster::move_permits(Master &to) {
    for (const auto &from : masters_) {
        if (from.get() != &to && from->node != nullptr &&
            from->node->session().has_background_commands() &&
            (from->node->session().hash_slots_of_permits() & to.serves).any()) {
            node_of(to).take_permits(to.serves, *from->node);
        }
    }
}

/// Moves the settlements that wait to the nodes that now serve their keys.
void Cluster::move_settlements(Session &from) {
    const redis_client::HashSlotSet slots = from.hash_slots_of_settlements();
    for (size_t i = 0; i < masters_.size() && slots.any(); ++i) {
        Master &to = *masters_[i];
        const bool is_from = to.node != nullptr && &to.node->session() == &from;
        if (!is_from && (slots & to.serves).any()) {
            node_of(to).take_settlements(to.serves, from);
        }
    }
}

void Cluster::on_fault() {
    want_map();
}

void Cluster::on_map(const redis_client::ClusterMap &map, std::string_view host) {
    for (const auto &master : masters_) {
        master->serves.reset();
    }
    serving_.fill(nullptr);
    std::vector<ServerAddress> nodes;
    for (const auto &entry : map.masters()) {
        const std::string_view its_host = entry.endpoint.host.empty() ? host : entry.endpoint.host;
        if (Master *master = master_at(its_host, entry.endpoint.port, entry.address)) {
            for (size_t slot = 0; slot < redis_client::hash_slots; ++slot) {
                if (entry.serves[slot]) {
                    serve(static_cast<uint16_t>(slot), *master);
                }
            }
            nodes.push_back(master->name);
        }
    }
    move_settlements(waiting_);
    for (const auto &master : masters_) {
        move_permits(*master);
        if (master->node != nullptr) {
            move_settlements(master->node->session());
        }
    }
    retire_masters();
    fetcher_.set_nodes(nodes);
    backoff_.reset();
    ask_waiting();
    if (is_well()) {
        faults_.succeed(fetcher_.text());
    }
    if (!is_well() || faults_.is_lasting() || std::exchange(is_wanted_again_, false)) {
        want_map();
    }
}

/// Removes masters that serve nothing any more, if no check waits for them and they keep no
/// permits.
void Cluster::retire_masters() {
    std::erase_if(masters_, [](const auto &master) {
        if (master->serves.any()) {
            return false;
        }
        if (master->node != nullptr) {
            const Session &session = master->node->session();
            if (session.pending() > 0 || session.has_background_commands()) {
                return false;
            }
            master->node->retire();
        }
        return true;
    });
}

/// Whether all keys are served, and each known master serves some of them and can be reached.
bool Cluster::is_well() const {
    return std::ranges::find(serving_, nullptr) == serving_.end() &&
           std::ranges::all_of(masters_, [](const auto &master) {
               return master->serves.any() &&
                      (master->node == nullptr || !master->node->session().is_unreachable());
           });
}

/// Called when a map has come. Sends the checks that wait to the nodes that serve their keys.
/// Checks of keys that nobody serves fail, now and from now on.
void Cluster::ask_waiting() {
    Command *waiting = nullptr;
    Command **last = &waiting;
    while (Command *call = waiting_.give_away()) {
        *last = call;
        last = &call->next_in_batch;
    }
    waiting_.disconnected(Session::Lost::unreachable, now());
    while (waiting != nullptr) {
        Command &call = *std::exchange(waiting, waiting->next_in_batch);
        call.next_in_batch = nullptr;
        if (Master *master = serving_[call.hash_slot]) {
            node_of(*master).take_over(call, Redirect::Kind::moved);
        } else {
            waiting_.take_over(call, Redirect::Kind::moved, now());
        }
    }
    update_waiting();
}

void Cluster::on_no_map(std::string_view what, std::string_view detail) {
    if (masters_.empty()) {
        faults_.fail({what, detail}, fetcher_.text(), 0);
        counters_.connection_failed();
        waiting_.disconnected(Session::Lost::unreachable, now());
        update_waiting();
        start_timer(map_timer_, backoff_.next(static_cast<uint32_t>(ngx_random())));
    } else {
        want_map();
    }
}

void Cluster::want_map() {
    if (fetcher_.is_fetching()) {
        is_wanted_again_ = true; // the map that is on its way may be older
    } else if (!map_timer_.timer_set) {
        start_timer(map_timer_, fetched_ + between_maps - now());
    }
}

void Cluster::on_map_timer() {
    fetched_ = now();
    is_wanted_again_ = false;
    fetcher_.fetch();
}

void Cluster::on_deadline() {
    (void)waiting_.expire(now());
    update_waiting();
}

void Cluster::update_waiting() {
    const uint64_t failures = waiting_.counters().failures;
    if (failures != reported_failures_) {
        const std::string_view what = masters_.empty() ? "nobody has told who serves the keys"
                                                       : "nobody serves some of the keys";
        faults_.fail({what}, fetcher_.text(),
                     failures - std::exchange(reported_failures_, failures));
    }
    if (const auto next = waiting_.next_expiry()) {
        start_timer(deadline_timer_, *next - now());
    } else {
        stop_timer(deadline_timer_);
    }
    deadline_timer_.cancelable = waiting_.has_waiting() ? 0 : 1;
}

} // namespace nginx_module
