#include "slot_map_fetcher.hpp"

#include "../timer.hpp"

#include <algorithm>

namespace nginx_module {

using redis_client::ClusterQuery;

SlotMapFetcher::SlotMapFetcher(Callbacks &callbacks, const BackendConf &conf, ngx_log_t *log)
    : callbacks_(callbacks),
      conf_(conf),
      query_(conf.session.username, conf.session.password),
      connection_(*this, log, conf.tls.get()) {
    set_nodes({});
    // A random one is the first, or all workers would ask the same.
    next_ = static_cast<size_t>(ngx_random()) % hosts_.size();
    set_up_timer(timer_, this, log, [](ngx_event_t *event) noexcept {
        static_cast<SlotMapFetcher *>(event->data)->ask_next("no answer in time", {});
    });
}

SlotMapFetcher::~SlotMapFetcher() {
    stop_timer(timer_);
}

std::unique_ptr<ResolvedAddress> SlotMapFetcher::make_host(const ServerAddress &name) {
    AddressSource::Callbacks &self = *this;
    return std::make_unique<ResolvedAddress>(self, conf_.resolver, name);
}

void SlotMapFetcher::set_nodes(const std::vector<ServerAddress> &nodes) {
    hosts_.resize(std::min(hosts_.size(), conf_.servers.size()));
    while (hosts_.size() < conf_.servers.size()) {
        hosts_.push_back(make_host(conf_.servers[hosts_.size()]));
    }
    for (const ServerAddress &node : nodes) {
        const auto is_node = [&](const ServerAddress &server) {
            return server.host == node.host && server.port == node.port;
        };
        if (std::ranges::none_of(conf_.servers, is_node)) {
            hosts_.push_back(make_host(node));
        }
    }
    next_ %= hosts_.size();
}

void SlotMapFetcher::fetch() {
    is_fetching_ = true;
    asked_ = 0;
    ask();
}

void SlotMapFetcher::ask() {
    ++asked_;
    start_timer(timer_, conf_.connect_timeout);
    hosts_[next_]->locate(conf_.connect_timeout / 2);
}

void SlotMapFetcher::stop() {
    stop_timer(timer_);
    connection_.close();
    hosts_[next_]->give_up();
    next_ = (next_ + 1) % hosts_.size();
}

void SlotMapFetcher::ask_next(std::string_view what, std::string_view detail) {
    stop();
    if (asked_ < hosts_.size()) {
        ask();
        return;
    }
    is_fetching_ = false;
    callbacks_.on_no_map("no node tells who serves the keys", detail.empty() ? what : detail);
}

void SlotMapFetcher::on_located() {
    const ResolvedAddress &host = *hosts_[next_];
    connection_.open(host.address(), host.host());
}

void SlotMapFetcher::on_not_located(std::string_view what, std::string_view detail) {
    ask_next(what, detail);
}

void SlotMapFetcher::on_connected() {
    query_.connected();
    connection_.send_soon();
}

void SlotMapFetcher::on_bytes(std::string_view bytes) {
    switch (query_.received(bytes)) {
    case ClusterQuery::Progress::more:
        break;
    case ClusterQuery::Progress::broken:
        ask_next(query_.problem().what, query_.problem().redis_said);
        break;
    case ClusterQuery::Progress::answered: {
        const std::string host(hosts_[next_]->host());
        is_fetching_ = false;
        stop();
        callbacks_.on_map(query_.map(), host);
        break;
    }
    }
}

/// Stops, because the worker shuts down and worker_shutdown_timeout has passed.
void SlotMapFetcher::on_dismissed() {
    is_fetching_ = false;
    stop();
}

void SlotMapFetcher::on_lost(const Connection::Loss &loss) {
    ask_next(loss.what, loss.detail);
}

} // namespace nginx_module
