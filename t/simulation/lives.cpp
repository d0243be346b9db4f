#include "simulation/lives.hpp"

#include "simulation/audited_rule.hpp"

#include <charconv>
#include <cstring>
#include <numeric>

namespace simulation {

namespace {

/// A key outlives its state by five seconds, but for what is rounded.
constexpr int64_t outlives_us = 5'000'000 - 10'000;
/// Numbers of scripts are exact up to 2^53.
constexpr int64_t furthest_us = int64_t{1} << 52;

/// A Redis key has its algorithm and its window, in milliseconds, behind its client:
/// rl:{zone:client}:algorithm:window.
std::string_view counter_of(std::string_view redis_key) {
    const size_t end = redis_key.find("}:");
    return end == std::string_view::npos ? std::string_view() : redis_key.substr(end + 2);
}

/// Takes the times out of an answer at which it was given: 8 bytes each, the lowest one first.
std::string without_time(std::string answer, int64_t clock_us) {
    std::string time(sizeof(clock_us), '\0');
    for (char &byte : time) {
        byte = static_cast<char>(clock_us & 255);
        clock_us >>= 8;
    }
    for (size_t at = answer.find(time); at != std::string::npos; at = answer.find(time, at)) {
        answer.erase(at, time.size());
    }
    return answer;
}

} // namespace

bool is_forgotten_too_early(int64_t expires_us, int64_t window_us, const AnswerAt &answer_at) {
    const int64_t first_us = expires_us - outlives_us;
    const int64_t later_us = first_us + window_us;
    return without_time(answer_at(first_us), first_us) !=
           without_time(answer_at(later_us), later_us);
}

std::optional<int64_t> common_window_us(std::span<const std::string_view> redis_keys) {
    int64_t common_ms = 1;
    for (const std::string_view key : redis_keys) {
        const std::string_view counter = counter_of(key);
        const char *const end = counter.data() + counter.size();
        int64_t window_ms = 0;
        std::from_chars(counter.data() + counter.find(':') + 1, end, window_ms);
        if (window_ms == 0) {
            return std::nullopt;
        }
        const int64_t steps = window_ms / std::gcd(common_ms, window_ms);
        if (steps > furthest_us / 1000 / common_ms) {
            return std::nullopt;
        }
        common_ms *= steps;
    }
    return common_ms * 1000;
}

bool is_of_permits(std::string_view redis_key) {
    return counter_of(redis_key).starts_with("concurrency:");
}

bool is_of_bucket(std::string_view redis_key) {
    const std::string_view counter = counter_of(redis_key);
    return is_bucket(counter.substr(0, counter.find(':')));
}

} // namespace simulation
