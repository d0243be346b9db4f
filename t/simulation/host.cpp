#include "host.hpp"

#include <cmath>
#include <span>

namespace simulation {

using std::chrono::microseconds;

Host::Host(Time clock_began, double drift) : clock_began_(clock_began), rate_(1 + drift / 1e6) {
    forget();
}

void Host::set_time(Time now) {
    now_ = clock_began_ + microseconds(std::llround(static_cast<double>(now.count()) * rate_));
}

Time Host::time_when(microseconds clock) const {
    return Time(std::llround(static_cast<double>((clock - clock_began_).count()) / rate_));
}

void Host::check_took(microseconds time) {
    constexpr int of_the_last = 8; // as in nginx_module/memory/backend_memory.cpp
    round_trip_ += (time - round_trip_) / of_the_last;
}

void Host::forget() {
    memory_ = std::make_unique<Memory>();
    const auto bytes = std::as_writable_bytes(std::span(memory_.get(), 1));
    const size_t denials = offsetof(Memory, denials_header);
    book_ = rate_limit::LeaseBook(bytes.first(denials));
    denials_ = rate_limit::DenyCache(bytes.subspan(denials));
    round_trip_ = microseconds{0};
}

} // namespace simulation
