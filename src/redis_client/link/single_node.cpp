#include "redis_client/link/single_node.hpp"

#include "redis_client/link/resolved_address.hpp"
#include "redis_client/link/sentinel_master.hpp"

namespace redis_client {

namespace {

Link::MakeAddressSource address_source_of(BackendContext &context) {
    return [&context](AddressSource::Callbacks &callbacks) -> std::unique_ptr<AddressSource> {
        const BackendSettings &settings = context.settings;
        if (settings.mode == Mode::sentinel) {
            return std::make_unique<SentinelMaster>(callbacks, context);
        }
        return std::make_unique<ResolvedAddress>(callbacks, context.world, settings.index,
                                                 settings.servers.front());
    };
}

} // namespace

SingleNode::SingleNode(const BackendSettings &settings, World &world, BackendLog &log)
    : Backend(settings, world, log) {
    if (settings.is_used()) {
        checks();
    }
}

CheckLink &SingleNode::checks() {
    if (checks_ == nullptr) {
        checks_ = std::make_unique<CheckLink>(context_, address_source_of(context_));
    }
    return *checks_;
}

void SingleNode::send_now() {
    if (checks_ != nullptr) {
        checks_->send_now();
    }
}

void SingleNode::run(ControlCommand &command) {
    if (!control_) {
        control_.emplace(context_, address_source_of(context_));
    }
    command.begin(context_.now());
    control_->run(command);
}

void SingleNode::cancel(const ControlCommand &command) {
    if (control_) {
        (void)control_->cancel(command);
    }
}

} // namespace redis_client
