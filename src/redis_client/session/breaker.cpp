#include "redis_client/session/breaker.hpp"

namespace redis_client {

bool Breaker::is_probe(Time now) {
    if (now < next_probe_) {
        return false;
    }
    next_probe_ = cooldown_end(now);
    return true;
}

void Breaker::succeed() {
    failures_in_a_row_ = 0;
    is_open_ = false;
    has_caught_up_ = false;
}

void Breaker::caught_up() {
    if (is_open_ && !has_caught_up_) {
        has_caught_up_ = true;
        next_probe_ = Time::min();
    }
}

void Breaker::fail(Time now) {
    ++failures_in_a_row_;
    if (!is_open_ && settings_.failures > 0 && failures_in_a_row_ >= settings_.failures) {
        is_open_ = true;
        next_probe_ = cooldown_end(now);
    }
}

Breaker::Time Breaker::cooldown_end(Time now) {
    const auto fifth = settings_.cooldown.count() / 5;
    return now + settings_.cooldown +
           Time(std::uniform_int_distribution<Time::rep>(-fifth, fifth)(random_));
}

} // namespace redis_client
