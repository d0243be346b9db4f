#include "redis_client/link/outage_log.hpp"

namespace redis_client {

void OutageLog::fail(const Fault &fault, std::string_view place, uint64_t failed_checks,
                     std::string_view checked) {
    if (outage_.fail(world_.now(), failed_checks)) {
        log_.on_outage(backend_, place, fault, checked);
    }
}

void OutageLog::fail(uint64_t failed_checks) {
    (void)outage_.fail(world_.now(), failed_checks);
}

void OutageLog::succeed(std::string_view place) {
    if (const auto ended = outage_.succeed(world_.now())) {
        log_.on_outage_end(backend_, place, BackendLog::End::works_again, *ended);
    }
}

void OutageLog::leave(std::string_view place) {
    if (outage_.is_lasting()) {
        log_.on_outage_end(backend_, place, BackendLog::End::no_longer_asked, outage_.end());
    }
}

} // namespace redis_client
