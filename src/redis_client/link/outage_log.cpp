#include "redis_client/link/outage_log.hpp"

namespace redis_client {

void OutageLog::fail(const Fault &fault, std::string_view place, uint64_t failed_checks,
                     std::string_view checked) {
    if (outage_.fail(world_.now(), failed_checks)) {
        log_.on_outage(backend_, place, cause_, fault, checked);
    }
}

void OutageLog::fail(uint64_t failed_checks) {
    (void)outage_.fail(world_.now(), failed_checks);
}

void OutageLog::succeed(std::string_view place) {
    if (const auto ended = outage_.succeed(world_.now())) {
        log_.on_outage_end(backend_, place, cause_, BackendLog::End::works_again, *ended);
    }
}

bool OutageLog::forget(std::string_view place) {
    const bool is_stale = outage_.is_stale(world_.now());
    if (is_stale) {
        log_.on_outage_end(backend_, place, cause_, BackendLog::End::fails_no_more, outage_.end());
    }
    return is_stale;
}

void OutageLog::leave(std::string_view place, uint64_t failed_checks) {
    if (outage_.is_lasting()) {
        if (failed_checks > 0) {
            fail(failed_checks);
        }
        log_.on_outage_end(backend_, place, cause_, BackendLog::End::no_longer_asked,
                           outage_.end());
    }
}

} // namespace redis_client
