#include "redis_client/link/cluster.hpp"

#include <algorithm>
#include <utility>

namespace redis_client {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds between_maps{1000};
constexpr milliseconds between_looks{50}; // for who serves the keys of control commands

/// The address of a node, which the next map may change. `name` outlives this.
class NodeAddress final : public ResolvedAddress {
  public:
    NodeAddress(AddressSource::Callbacks &callbacks, World &world, size_t backend,
                const ServerAddress &name)
        : ResolvedAddress(callbacks, world, backend, name), name_(name) {}

    void locate(milliseconds timeout) override {
        set_known(name_);
        ResolvedAddress::locate(timeout);
    }

  private:
    const ServerAddress &name_;
};

} // namespace

Cluster::Cluster(const BackendSettings &settings, World &world, BackendLog &log)
    : Backend(settings, world, log),
      waiting_(context_.group, context_.random()),
      deadline_timer_(world.make_timer([this] { on_deadline(); })),
      unserved_timer_(world.make_timer([this] { run_unserved(); })),
      map_query_(*this, context_),
      map_timer_(world.make_timer([this] { on_map_timer(); })),
      faults_(settings.name, Problem::Cause::redis, world, log) {
    on_map_timer();
}

Cluster::~Cluster() {
    serving_.fill(nullptr);
    waiting_.disconnected(Session::Lost::unreachable, context_.now()); // fails what still waits
    // What fails with a link may look for the others.
    std::ranges::for_each(masters_, [](const auto &master) { master->checks.reset(); });
    faults_.leave(map_query_.text(), waiting_.counters().failures - reported_.failures);
}

std::variant<Command *, Failure> Cluster::ask(std::span<Charge> charges,
                                              CheckCallbacks &callbacks) {
    if (Master *master = serving_[charges.front().hash_slot]) {
        return checks_of(*master).ask(charges, callbacks);
    }
    const auto asked = waiting_.ask(charges, callbacks, context_.now());
    if (!masters_.empty()) {
        want_map();
    }
    update_waiting();
    return asked;
}

void Cluster::abandon(Command &check) {
    if (CheckLink *link = link_that_has(check)) {
        link->abandon(check);
    } else {
        waiting_.abandon(check, context_.now());
    }
}

void Cluster::refund(std::span<Charge> charges) {
    if (Master *master = serving_[charges.front().hash_slot]) {
        checks_of(*master).refund(charges);
    } else {
        waiting_.refund(charges, context_.now()); // until a map says who serves the keys
    }
}

void Cluster::settle(const SettlementOrder &order) {
    if (Master *master = serving_[order.charge.hash_slot]) {
        checks_of(*master).settle(order);
    } else {
        waiting_.settle(order); // until a map says who serves the key
    }
}

void Cluster::send_now() {
    for (const auto &master : masters_) {
        if (master->checks != nullptr) {
            master->checks->send_now();
        }
    }
}

void Cluster::release(Permit &permit) {
    if (CheckLink *link = link_that_has(permit)) {
        link->release(permit);
    }
}

void Cluster::run(ControlCommand &command) {
    command.begin(context_.now());
    if (Master *master = serving_[command.hash_slot]) {
        control_of(*master).run(command);
        return;
    }
    want_map();
    unserved_.push_back(&command);
    update_unserved();
}

void Cluster::cancel(const ControlCommand &command) {
    std::erase(unserved_, &command);
    (void)std::ranges::any_of(masters_, [&](const auto &master) {
        return master->control != nullptr && master->control->cancel(command);
    });
    update_unserved();
}

/// Sends the control commands whose keys are served by now, and fails those that have waited too
/// long.
void Cluster::run_unserved() {
    for (ControlCommand *command : std::exchange(unserved_, {})) {
        if (Master *master = serving_[command->hash_slot]) {
            control_of(*master).run(*command);
        } else {
            unserved_.push_back(command);
        }
    }
    const auto is_late = [&](const auto *one) { return one->deadline() <= context_.now(); };
    for (auto late = unserved_.begin();
         (late = std::ranges::find_if(unserved_, is_late)) != unserved_.end();) {
        ControlCommand &command = **late;
        unserved_.erase(late);
        command.on_failure(false, {"nobody serves the keys"});
    }
    update_unserved();
}

void Cluster::update_unserved() {
    if (unserved_.empty()) {
        unserved_timer_->stop();
    } else if (!unserved_timer_->is_running()) {
        unserved_timer_->start(between_looks);
    }
    unserved_timer_->hold_worker(std::ranges::any_of(unserved_, &ControlCommand::holds_worker));
}

CheckLink *Cluster::link_where(const std::function<bool(const Session &)> &is_it) const {
    for (const auto &master : masters_) {
        if (master->checks != nullptr && is_it(master->checks->session())) {
            return master->checks.get();
        }
    }
    return nullptr;
}

CheckLink &Cluster::checks_of(Master &master) {
    if (master.checks == nullptr) {
        CheckLink::Callbacks &self = *this;
        master.checks = std::make_unique<CheckLink>(context_, address_source_of(master), &self);
    }
    return *master.checks;
}

ControlLink &Cluster::control_of(Master &master) {
    if (master.control == nullptr) {
        ControlLink::Callbacks &self = *this;
        master.control = std::make_unique<ControlLink>(context_, address_source_of(master), &self);
    }
    return *master.control;
}

Link::MakeAddressSource Cluster::address_source_of(const Master &master) const {
    return [&](AddressSource::Callbacks &callbacks) {
        return std::make_unique<NodeAddress>(callbacks, context_.world, context_.settings.index,
                                             master.name);
    };
}

/// Makes the address of a node. A name has the addresses that the configuration or the cluster
/// knows for it, of which `address` may be one, unless a resolver finds others.
ServerAddress Cluster::name_of(std::string_view host, in_port_t port,
                               std::string_view address) const {
    ServerAddress name{
        .host = std::string(host), .port = port, .addresses = literal_address(host, port)};
    if (!name.addresses.empty()) {
        return name;
    }
    const BackendSettings &settings = context_.settings;
    auto &addresses = settings.has_resolver ? name.spare : name.addresses;
    const auto server = std::ranges::find(settings.servers, host, &ServerAddress::host);
    if (server != settings.servers.end()) {
        for (const Address &known : server->known()) {
            addresses.push_back(known.with_port(port));
        }
    } else {
        addresses = literal_address(address, port);
    }
    return name;
}

/// Returns the master of that name, and makes it if it is new. One that is known gets the address
/// that the cluster knows by now. Returns null if the name has no address, or if there are already
/// as many masters as a cluster may have.
Cluster::Master *Cluster::master_at(std::string_view host, in_port_t port,
                                    std::string_view address) {
    const auto known = std::ranges::find_if(masters_, [&](const auto &master) {
        return master->name.host == host && master->name.port == port;
    });
    ServerAddress name = name_of(host, port, address);
    if (known != masters_.end()) {
        if (!name.known().empty()) {
            (*known)->name = std::move(name);
        }
        return known->get();
    }
    if ((name.addresses.empty() && !context_.settings.has_resolver) ||
        masters_.size() == ClusterMap::most_masters) {
        return nullptr;
    }
    masters_.push_back(std::make_unique<Master>(std::move(name)));
    return masters_.back().get();
}

/// Returns the node that a redirect names. A redirect without a host names that of its sender.
Cluster::Master *Cluster::target_of(const Redirect &to, const auto &is_sender) {
    if (!to.host.empty()) {
        return master_at(to.host, to.port);
    }
    const auto sender = std::ranges::find_if(masters_, is_sender);
    return master_at((*sender)->name.host, to.port);
}

Cluster::Master *Cluster::target_of(const Redirect &to, const Session &from) {
    return target_of(to, [&](const auto &master) {
        return master->checks != nullptr && &master->checks->session() == &from;
    });
}

void Cluster::on_redirect(const Session &from, const Redirect &to) {
    if (to.kind == Redirect::Kind::moved) {
        note_moved(to.hash_slot, target_of(to, from));
    }
}

/// A node says that another one serves the hash slot. That holds until a map says otherwise.
void Cluster::note_moved(uint16_t hash_slot, Master *to) {
    if (to != nullptr) {
        serve(hash_slot, *to);
        move_permits(*to);
    }
    want_map();
}

void Cluster::ask_again(Command &command, const Session &from, const Redirect &to) {
    if (Master *master = target_of(to, from)) {
        checks_of(*master).take_over(command, to.kind);
    } else {
        waiting_.take_over(command, to.kind, context_.now());
        update_waiting();
    }
}

bool Cluster::redirect(const ControlSession &from, ControlCommand &command, const Redirect &to) {
    Master *master = target_of(to, [&](const auto &one) {
        return one->control != nullptr && &one->control->session() == &from;
    });
    if (to.kind == Redirect::Kind::moved) {
        note_moved(to.hash_slot, master);
    }
    if (master != nullptr) {
        control_of(*master).take_over(command, to.kind);
    }
    return master != nullptr;
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
        if (from.get() != &to && from->checks != nullptr &&
            from->checks->session().has_background_commands() &&
            (from->checks->session().hash_slots_of_permits() & to.serves).any()) {
            checks_of(to).take_permits(to.serves, *from->checks);
        }
    }
}

/// Moves the settlements that wait to the nodes that now serve their keys.
void Cluster::move_settlements(Session &from) {
    const HashSlotSet slots = from.hash_slots_of_settlements();
    for (size_t i = 0; i < masters_.size() && slots.any(); ++i) {
        Master &to = *masters_[i];
        const bool is_from = to.checks != nullptr && &to.checks->session() == &from;
        if (!is_from && (slots & to.serves).any()) {
            checks_of(to).take_settlements(to.serves, from);
        }
    }
}

void Cluster::on_fault() {
    want_map();
}

void Cluster::on_map(const ClusterMap &map, std::string_view host) {
    for (const auto &master : masters_) {
        master->serves.reset();
    }
    serving_.fill(nullptr);
    std::vector<ServerAddress> nodes;
    for (const auto &entry : map.masters()) {
        const std::string_view its_host = entry.endpoint.host.empty() ? host : entry.endpoint.host;
        if (Master *master = master_at(its_host, entry.endpoint.port, entry.address)) {
            for (size_t slot = 0; slot < hash_slots; ++slot) {
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
        if (master->checks != nullptr) {
            move_settlements(master->checks->session());
        }
    }
    retire_masters();
    map_query_.set_nodes(nodes);
    backoff_.reset();
    ask_waiting();
    if (is_well()) {
        faults_.succeed(map_query_.text());
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
        if (master->checks != nullptr) {
            const Session &session = master->checks->session();
            if (session.pending() > 0 || session.has_background_commands()) {
                return false;
            }
            master->checks.reset();
        }
        return master->control == nullptr || master->control->session().is_idle();
    });
}

/// Whether all keys are served, and each master that is asked serves some of them and can be
/// reached.
bool Cluster::is_well() const {
    return std::ranges::find(serving_, nullptr) == serving_.end() &&
           std::ranges::all_of(masters_, [](const auto &master) {
               return master->checks == nullptr ||
                      (master->serves.any() && !master->checks->session().is_unreachable());
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
    waiting_.disconnected(Session::Lost::unreachable, context_.now());
    while (waiting != nullptr) {
        Command &call = *std::exchange(waiting, waiting->next_in_batch);
        call.next_in_batch = nullptr;
        if (Master *master = serving_[call.hash_slot]) {
            checks_of(*master).take_over(call, Redirect::Kind::moved);
        } else {
            waiting_.take_over(call, Redirect::Kind::moved, context_.now());
        }
    }
    update_waiting();
}

void Cluster::on_no_map(const Fault &fault) {
    if (masters_.empty()) {
        faults_.fail(fault, map_query_.text(), 0);
        context_.counters.connection_failed();
        waiting_.disconnected(Session::Lost::unreachable, context_.now());
        update_waiting();
        map_timer_->start(backoff_.next(context_.random(), Backoff::longest_after(fault)));
    } else if (fault.is_refusal) {
        map_timer_->start(
            std::max(between_maps, backoff_.next(context_.random(), Backoff::longest_refused)));
    } else {
        want_map();
    }
}

void Cluster::want_map() {
    if (map_query_.is_fetching()) {
        is_wanted_again_ = true; // the map that is on its way may be older
    } else if (!map_timer_->is_running()) {
        map_timer_->start(fetched_ + between_maps - context_.now());
    }
}

void Cluster::on_map_timer() {
    fetched_ = context_.now();
    is_wanted_again_ = false;
    map_query_.fetch();
}

void Cluster::on_deadline() {
    (void)waiting_.expire(context_.now());
    update_waiting();
}

void Cluster::update_waiting() {
    const auto &counters = waiting_.counters();
    if (counters.not_asked != reported_.not_asked && faults_.is_lasting()) {
        faults_.fail(counters.not_asked - reported_.not_asked);
    }
    if (counters.failures != reported_.failures) {
        const std::string_view what = masters_.empty() ? "nobody has told who serves the keys"
                                                       : "nobody serves some of the keys";
        faults_.fail({what}, map_query_.text(), counters.failures - reported_.failures);
    }
    reported_ = counters;
    if (const auto next = waiting_.next_expiry()) {
        deadline_timer_->start(*next - context_.now());
    } else {
        deadline_timer_->stop();
    }
    deadline_timer_->hold_worker(waiting_.has_waiting());
}

} // namespace redis_client
