#include "simulation/clients.hpp"

#include <algorithm>
#include <iterator>
#include <string>

namespace simulation {

void Clients::draw(const DrawnConfiguration &configuration) {
    Chance &chance = simulation_.chance;
    const Theme theme = configuration.theme;
    if (theme == Theme::waves) {
        const DrawnRule &rule = configuration.rules.front();
        refill_ = Time{rule.audited.refill_us()};
        lease_ = Time{rule.leases_for_us};
        const bool has_burst = rule.audited.is_bucket() && rule.audited.burst;
        capacity_ = has_burst ? *rule.audited.burst + 1 : rule.audited.limit;
        has_host_without_leases_ = configuration.has_host_without_leases;
    }
    has_single_requests_ = theme == Theme::single_requests;
    if (has_single_requests_) {
        simulation_.auditor.expect_single_requests();
        // Only here: of clients that share a key nobody knows what one was charged that left.
        leave_though_nothing_fails_ = leaving_.one_in(2);
    }
    const bool is_busy = theme == Theme::leases || theme == Theme::edges;
    uint64_t keys = is_busy             ? 1 + chance.below(2)
                    : chance.one_in(10) ? 300 // more than small tables hold
                                        : 1 + chance.below(4);
    fills_lease_books_ = configuration.fills_lease_books;
    if (fills_lease_books_) {
        keys = 40 + Chance(simulation_.plan.seed ^ 0xC60D).below(40);
    }
    for (uint64_t i = 0; i < keys; ++i) {
        keys_.push_back("k" + std::to_string(i));
    }
    pause_ = is_busy ? Time{chance.between(150, 1'500)} : Time{chance.between(300, 20'000)};
}

void Clients::come_until(Time end) {
    end_ = end;
    if (capacity_ > 0) {
        come_in_waves();
    } else {
        come();
    }
}

std::string Clients::draw_key() {
    if (has_single_requests_) {
        return "once" + std::to_string(++single_keys_);
    }
    // Nothing is leased for a key that does not come often.
    if (!fills_lease_books_ || simulation_.chance.one_in(15)) {
        drawn_key_ = simulation_.chance.below(keys_.size());
    }
    return keys_[drawn_key_];
}

/// Clients come one after the other, sometimes many at once.
void Clients::come() {
    const Time now = simulation_.timeline.now();
    if (now >= end_) {
        return;
    }
    Chance &chance = simulation_.chance;
    std::erase_if(clients_, [](const auto &client) { return client->is_over(); });
    for (uint64_t i = chance.one_in(20) ? 1 + chance.below(20) : 1; i > 0; --i) {
        const std::string key = draw_key(); // first, whatever the compiler
        come_to(draw_host(), key);
    }
    simulation_.timeline.add(now + Time{chance.between(0, 2 * pause_.count())}, [this] { come(); });
}

void Clients::come_to(SimulatedHost &host, const std::string &key) {
    Chance &chance = simulation_.chance;
    SimulatedWorker &worker = host.draw_serving_worker(chance);
    Client &client = start_request(host, worker, key);
    if (!simulation_.has_faults) {
        client.need(Client::Needed::all);
        if (leave_though_nothing_fails_ && leaving_.one_in(4)) {
            client.leave_at(simulation_.timeline.now() + Time{leaving_.between(0, 3'000)});
        }
    } else if (chance.one_in(20)) {
        client.leave_at(simulation_.timeline.now() + Time{chance.between(0, 3'000)});
    }
}

/// What leases can do wrong is seen at their end, where all units have come back before.
void Clients::come_in_waves() {
    const Time now = simulation_.timeline.now();
    if (now >= end_) {
        return;
    }
    std::erase_if(clients_, [](const auto &client) { return client->is_over(); });
    const std::string key = draw_key();
    come_to(draw_host(), key);
    const bool is_about_unused_leases = lease_ > Time{0} && simulation_.chance.one_in(2);
    Time when =
        is_about_unused_leases ? come_about_unused_leases(key, now) : come_about_end(key, now);
    when += refill_ + drawn_time(refill_.count() / 4);
    simulation_.timeline.add(when, [this] { come_in_waves(); });
}

/// A few clients come to one host after a quiet time, which leases units for the next ones. These
/// come later, to all hosts, when the lease or its window ends. Returns when the last one does.
Time Clients::come_about_end(const std::string &key, Time when) {
    Chance &chance = simulation_.chance;
    const Time refilled = when + refill_;
    const bool is_about_window = chance.one_in(2); // that the client before them has begun
    const Time pause = drawn_time(refill_.count() / 8);
    when = is_about_window ? refilled - pause : when + pause;
    for (uint64_t lease = 1 + chance.below(2); lease > 0; --lease) {
        SimulatedHost &host = draw_host();
        for (uint64_t i = 5 + chance.below(12); i > 0; --i) {
            when += drawn_time(2'000);
            come_at(when, host, key);
        }
        if (!is_about_window) {
            when += drawn_time(refill_.count() / 4); // no lease is longer
        }
    }
    when = is_about_window ? std::max(when, refilled) : when;
    for (uint64_t i = 1 + chance.below(2 * capacity_); i > 0; --i) {
        when += drawn_time(200);
        come_at(when, draw_host(), key);
    }
    return when;
}

/// So few clients come to a host that it leases units and uses none of them. Often another host
/// does the same meanwhile, so that the first one gives its units back while the second one holds
/// its own. Just before the last lease ends more clients come than there are units, and at last
/// some who use the lease. Most of them come to a host that holds nothing, and before the others:
/// what is leased now would hold back units for its own time. Returns when the last one comes.
Time Clients::come_about_unused_leases(const std::string &key, Time when) {
    Chance &chance = simulation_.chance;
    when += drawn_time(refill_.count() / 8);
    const auto part_of_lease = [&](int64_t least_percent, int64_t most_percent) {
        return lease_ * chance.between(least_percent, most_percent) / 100;
    };
    std::optional<size_t> last_host;
    Time leased = when;
    for (uint64_t lease = chance.below(10) < 7 ? 2 : 1; lease > 0; --lease) {
        when = last_host ? std::max(when, leased + part_of_lease(20, 80)) : when;
        leased = when;
        last_host = draw_leasing_host_but(last_host);
        for (uint64_t i = 4 + chance.below(3); i > 0; --i) {
            when += Time{chance.between(100, 300)};
            come_at(when, *hosts_[*last_host], key);
        }
    }
    when = std::max(when, leased + part_of_lease(85, 97));
    SimulatedHost &other =
        has_host_without_leases_ ? *hosts_.back() : *hosts_[draw_leasing_host_but(last_host)];
    const auto come_on = [&](SimulatedHost &host, uint64_t clients) {
        for (; clients > 0; --clients) {
            when += drawn_time(100);
            come_at(when, host, key);
        }
    };
    come_on(other, capacity_ + chance.below(capacity_));
    come_on(*hosts_[*last_host], 1 + capacity_ / 4);
    return when;
}

/// Returns the place of a host that leases, and is not this one.
size_t Clients::draw_leasing_host_but(std::optional<size_t> host) {
    const size_t leasing = hosts_.size() - (has_host_without_leases_ ? 1 : 0);
    const size_t drawn = simulation_.chance.below(host ? leasing - 1 : leasing);
    return host && drawn >= *host ? drawn + 1 : drawn;
}

void Clients::come_at(Time when, SimulatedHost &host, const std::string &key) {
    simulation_.timeline.add(when, [this, &host, key] { come_to(host, key); });
}

Client &Clients::start_request(SimulatedHost &host, SimulatedWorker &worker,
                               const std::string &key) {
    Client::Callbacks &callbacks = *this;
    Client &client =
        *clients_.emplace_back(std::make_unique<Client>(simulation_, host, worker, key, callbacks));
    worker.begin_request(); // it waits for a worker that stands still, even for one that leaves
    worker.later(simulation_.timeline.now(), [this, &client] {
        ++simulation_.happened.requests;
        ++begun_;
        client.begin();
    });
    return client;
}

void Clients::ask_each_worker(Client::Needed needed) {
    for (const auto &host : hosts_) {
        for (const auto &worker : host->workers()) {
            if (worker->is_serving()) {
                const std::string key = "last" + std::to_string(++last_keys_);
                Client &client = start_request(*host, *worker, key);
                client.need(needed);
                client.say_right_numbers();
                client.set_cost(1); // all need the same of Redis: a replica can deny, not grant
            }
        }
    }
}

void Clients::note_stop(const SimulatedWorker &worker) {
    for (const auto &client : clients_) {
        if (&client->worker() == &worker) {
            client->note_stop();
        }
    }
}

void Clients::die_with(const SimulatedWorker &worker) {
    for (auto client = clients_.begin(); client != clients_.end();) {
        const auto next = std::next(client);
        if (&(*client)->worker() == &worker && !(*client)->is_over()) {
            (*client)->die();
            dead_.splice(dead_.end(), clients_, client);
        }
        client = next;
    }
}

void Clients::end_dead() {
    for (const auto &client : dead_) {
        client->end_dead();
    }
}

bool Clients::are_over() const {
    return std::ranges::all_of(clients_, [](const auto &client) { return client->is_over(); });
}

void Clients::end() {
    for (const auto &client : clients_) {
        if (!client->is_over()) {
            simulation_.auditor.leave("a request");
        }
    }
    clients_.clear();
}

} // namespace simulation
