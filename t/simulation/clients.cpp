#include "simulation/clients.hpp"

#include <algorithm>
#include <string>

namespace simulation {

void Clients::draw(const DrawnConfiguration &configuration) {
    Chance &chance = simulation_.chance;
    const Theme theme = configuration.theme;
    if (theme == Theme::waves) {
        refill_ = Time{configuration.rules.front().audited.refill_us()};
        limit_ = configuration.rules.front().audited.limit;
    }
    has_single_requests_ = theme == Theme::single_requests;
    if (has_single_requests_) {
        simulation_.auditor.expect_single_requests();
    }
    const bool is_busy = theme == Theme::leases || theme == Theme::edges;
    const uint64_t keys = is_busy             ? 1 + chance.below(2)
                          : chance.one_in(10) ? 300 // more than small tables hold
                                              : 1 + chance.below(4);
    for (uint64_t i = 0; i < keys; ++i) {
        keys_.push_back("k" + std::to_string(i));
    }
    pause_ = is_busy ? Time{chance.between(150, 1'500)} : Time{chance.between(300, 20'000)};
}

void Clients::come_until(Time end) {
    end_ = end;
    if (limit_ > 0) {
        come_in_waves();
    } else {
        come();
    }
}

std::string Clients::draw_key() {
    return has_single_requests_ ? "once" + std::to_string(++single_keys_)
                                : keys_[simulation_.chance.below(keys_.size())];
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
    } else if (chance.one_in(20)) {
        client.leave_at(simulation_.timeline.now() + Time{chance.between(0, 3'000)});
    }
}

/// What leases can do wrong is seen at their end, where all units have come back before. So a few
/// clients come to one host after a quiet time, which leases units for the next ones. These come
/// later, to all hosts, when the lease or its window ends.
void Clients::come_in_waves() {
    if (simulation_.timeline.now() >= end_) {
        return;
    }
    std::erase_if(clients_, [](const auto &client) { return client->is_over(); });
    Chance &chance = simulation_.chance;
    const std::string key = draw_key();
    const Time refilled = simulation_.timeline.now() + refill_;
    Time when = simulation_.timeline.now();
    const auto pass = [&](int64_t at_most_us) { when += Time{chance.between(0, at_most_us)}; };
    come_to(draw_host(), key);
    const bool is_about_end = chance.one_in(2); // of a window that the first one has begun
    pass(refill_.count() / 8);
    when = is_about_end ? refilled - (when - simulation_.timeline.now()) : when;
    for (uint64_t lease = 1 + chance.below(2); lease > 0; --lease) {
        SimulatedHost &host = draw_host();
        for (uint64_t i = 5 + chance.below(12); i > 0; --i) {
            pass(2'000);
            come_at(when, host, key);
        }
        if (!is_about_end) {
            pass(refill_.count() / 4); // no lease is longer
        }
    }
    when = is_about_end ? std::max(when, refilled) : when;
    for (uint64_t i = 1 + chance.below(2 * limit_); i > 0; --i) {
        pass(200);
        come_at(when, draw_host(), key);
    }
    when += refill_;
    pass(refill_.count() / 4);
    simulation_.timeline.add(when, [this] { come_in_waves(); });
}

void Clients::come_at(Time when, SimulatedHost &host, const std::string &key) {
    simulation_.timeline.add(when, [this, &host, key] { come_to(host, key); });
}

Client &Clients::start_request(SimulatedHost &host, SimulatedWorker &worker,
                               const std::string &key) {
    Client::Callbacks &callbacks = *this;
    Client &client =
        *clients_.emplace_back(std::make_unique<Client>(simulation_, host, worker, key, callbacks));
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
    for (const auto &client : clients_) {
        if (&client->worker() == &worker && !client->is_over()) {
            client->die();
        }
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
