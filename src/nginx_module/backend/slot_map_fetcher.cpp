#include "nginx_module/backend/slot_map_fetcher.hpp"

#include "nginx_module/timer.hpp"

namespace nginx_module {

using redis_client::ClusterQuery;

SlotMapFetcher::SlotMapFetcher(Callbacks &callbacks, const BackendConf &conf, ngx_log_t *log)
    : callbacks_(callbacks),
      conf_(conf),
      servers_(*this, conf),
      query_(conf.session.username, conf.session.password),
      connection_(*this, log, conf.tls.get(), conf.connect_timeout) {
    set_up_timer(timer_, this, log, [](ngx_event_t *event) noexcept {
        static_cast<SlotMapFetcher *>(event->data)->ask_next("no answer in time", {});
    });
}

SlotMapFetcher::~SlotMapFetcher() {
    stop_timer(timer_);
}

void SlotMapFetcher::set_nodes(const std::vector<ServerAddress> &nodes) {
    servers_.set_others(nodes);
}

void SlotMapFetcher::fetch() {
    is_fetching_ = true;
    servers_.begin_round();
    ask();
}

void SlotMapFetcher::ask() {
    start_timer(timer_, conf_.connect_timeout);
    servers_.locate(conf_.connect_timeout / 2);
}

void SlotMapFetcher::stop() {
    stop_timer(timer_);
    connection_.close();
    servers_.turn_to_next();
}

void SlotMapFetcher::ask_next(std::string_view what, std::string_view detail) {
    stop();
    if (!servers_.is_round_over()) {
        ask();
        return;
    }
    is_fetching_ = false;
    callbacks_.on_no_map("no node tells who serves the keys", detail.empty() ? what : detail);
}

void SlotMapFetcher::on_located() {
    const ResolvedAddress &server = servers_.current();
    connection_.open(server.address(), server.host());
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
        const std::string host(servers_.current().host());
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
