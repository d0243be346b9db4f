#include "redis_client/link/slot_map_query.hpp"

#include "redis_client/session/auth.hpp"
#include "redis_client/wire/resp.hpp"

#include <utility>

namespace redis_client {

namespace {

/// A range of hash slots takes some 100 bytes a node, and each hash slot may be a range of its own.
constexpr size_t longest_slot_map = size_t{16} << 20;

} // namespace

SlotMapQuery::SlotMapQuery(Callbacks &callbacks, BackendContext &context)
    : callbacks_(callbacks),
      context_(context),
      link_(
          context,
          [&](AddressSource::Callbacks &link) {
              auto servers = std::make_unique<ServersInTurn>(link, context);
              servers_ = servers.get();
              return servers;
          },
          nullptr, longest_slot_map),
      timer_(context.world.make_timer([this] { on_timer(); })) {
    holds_worker = false;
}

void SlotMapQuery::fetch() {
    is_fetching_ = true;
    all_refuse_ = true;
    servers_->begin_round();
    ask();
}

void SlotMapQuery::ask() {
    const std::chrono::milliseconds timeout = context_.settings.connect_timeout;
    timer_->start(timeout);
    problem_ = "no answer in time";
    is_refused_ = false;
    begin(context_.now(), 2 * timeout); // the timer ends it before
    link_.run(*this);
}

bool SlotMapQuery::write(ByteQueue &out) const {
    return write_command(out, {"CLUSTER", "SLOTS"});
}

void SlotMapQuery::on_reply(ReplyView reply) {
    if (reply.is_error()) {
        const std::string_view error = reply.text().value_or("");
        is_refused_ = is_refusal(error);
        end(error);
        return;
    }
    map_ = ClusterMap::read(reply);
    host_ = servers_->host(); // who has answered: the next server may be tried before the timer
    end(reply.is_empty() ? "no node of the cluster serves any keys" : "an unexpected reply");
}

void SlotMapQuery::on_failure(bool /*was_sent*/, const Fault &fault) {
    is_refused_ = fault.is_refusal;
    end(fault.detail.empty() ? fault.what : fault.detail);
}

/// The link is still busy with this command. What follows waits for the timer.
void SlotMapQuery::end(std::string_view problem) {
    problem_ = problem;
    timer_->start(std::chrono::milliseconds{0});
}

void SlotMapQuery::on_timer() {
    (void)link_.cancel(*this);
    link_.hang_up();
    all_refuse_ = all_refuse_ && is_refused_;
    const auto map = std::exchange(map_, std::nullopt);
    if (!map && !servers_->is_round_over()) {
        ask();
        return;
    }
    is_fetching_ = false;
    if (map) {
        callbacks_.on_map(*map, host_);
    } else {
        callbacks_.on_no_map({.what = "no node tells who serves the keys",
                              .detail = problem_,
                              .is_refusal = all_refuse_});
    }
}

} // namespace redis_client
