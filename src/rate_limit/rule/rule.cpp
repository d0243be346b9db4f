#include "rate_limit/rule/rule.hpp"

#include "rate_limit/wide.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

/// The longest time there is, in whole microseconds: what is longer counts as that.
constexpr UnsignedWide longest_time = std::chrono::microseconds::max().count();

} // namespace

bool is_name(std::string_view text) {
    return is_rule_name(text) && text.size() <= longest_name;
}

bool is_rule_name(std::string_view text) {
    const auto allowed = [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '_' || c == '/' || c == '-';
    };
    return !text.empty() && text.size() <= longest_rule_name && std::ranges::all_of(text, allowed);
}

uint64_t Quota::capacity() const {
    const Burst meaning = traits_of(algorithm).burst;
    if (meaning == Burst::none || limit == 0) {
        return limit;
    }
    return meaning == Burst::is_capacity ? burst.value_or(limit) : burst.value_or(0) + 1;
}

void Quota::set_capacity(uint64_t units) {
    switch (traits_of(algorithm).burst) {
    case Burst::none:
        limit = units;
        break;
    case Burst::is_capacity:
        burst = units;
        break;
    case Burst::above_one:
        burst = units - 1;
        break;
    }
}

void Quota::set_window_at(std::chrono::microseconds unix_time) {
    if (calendar != nullptr) {
        window =
            std::chrono::floor<std::chrono::milliseconds>(calendar->window_at(unix_time).length());
    }
}

void Quota::set_window_until(std::chrono::microseconds end) {
    if (calendar != nullptr) {
        const auto last_moment = end - std::chrono::microseconds{1};
        window = std::chrono::floor<std::chrono::milliseconds>(
            end - calendar->window_at(last_moment).begin);
    }
}

std::chrono::microseconds Quota::refill() const {
    const std::chrono::microseconds whole_window = window;
    if (!is_bucket(algorithm) || limit == 0) {
        return whole_window;
    }
    const UnsignedWide product =
        UnsignedWide{capacity()} * static_cast<uint64_t>(whole_window.count());
    return std::chrono::microseconds(
        static_cast<int64_t>(std::min<UnsignedWide>((product + limit - 1) / limit, longest_time)));
}

uint64_t Quota::largest_capacity() const {
    const auto us = [](std::chrono::microseconds time) {
        return static_cast<uint64_t>(time.count());
    };
    return static_cast<uint64_t>(UnsignedWide{us(longest_refill)} * limit / us(window));
}

uint64_t Quota::to_charge() const {
    if (is_bucket(algorithm)) {
        return time_to_charge(*this).us;
    }
    return reserves_nothing ? 0 : cost - std::min(cost, charged);
}

bool Quota::charges() const {
    if (is_bucket(algorithm)) {
        const BucketTime time = time_to_charge(*this);
        return time.us > 0 || time.fraction > 0;
    }
    return to_charge() > 0;
}

void set_by_operator(Quota &quota, bool has_burst, uint64_t shards) {
    if (has_burst || shards == 1) {
        quota.other_limit = OtherLimit::counts_in_units;
    }
}

void keep_cost_free(Quota &quota, bool is_charged_later) {
    if (is_charged_later && quota.cost == 0) {
        quota.cost = 1;
        quota.reserves_nothing = true;
    }
}

bool is_at_least_as_strict(const Quota &quota, const Quota &other) {
    const bool charges_as_much = !quota.reserves_nothing || other.reserves_nothing;
    return charges_as_much && quota.capacity() <= other.capacity() && quota.limit <= other.limit &&
           quota.delay <= other.delay && quota.cost >= other.cost;
}

Interval::Interval(const Quota &quota)
    : length(static_cast<uint64_t>(std::chrono::microseconds(quota.window).count())),
      parts(std::max<uint64_t>(quota.limit, 1)) {}

BucketTime time_of_units(const Interval &interval, uint64_t units) {
    const UnsignedWide time = UnsignedWide{interval.length} * units;
    if (time / interval.parts > longest_time) {
        return {static_cast<uint64_t>(longest_time), 0};
    }
    return {static_cast<uint64_t>(time / interval.parts),
            static_cast<uint64_t>(time % interval.parts)};
}

BucketTime time_to_charge(const Quota &quota) {
    if (quota.reserves_nothing) {
        return {0, 0};
    }
    // All costs that are more than the capacity count alike: Lua's numbers end at 2^53.
    const uint64_t cost = std::min(quota.cost, quota.capacity() + 1);
    BucketTime time = time_of_units(Interval(quota), cost);
    if (time.us < quota.charged) {
        return {0, 0};
    }
    time.us -= quota.charged;
    return time;
}

uint64_t units_to_charge(const Quota &quota) {
    if (!is_bucket(quota.algorithm)) {
        return quota.to_charge();
    }
    const Interval interval(quota);
    const BucketTime time = time_to_charge(quota);
    return static_cast<uint64_t>((UnsignedWide{time.us} * interval.parts + time.fraction) /
                                 interval.length);
}

std::string Rule::name() const {
    if (!explicit_name.empty()) {
        return explicit_name;
    }
    if (holds_permits(quota.algorithm)) {
        return zone + "/" + std::string(to_string(quota.algorithm));
    }
    if (calendar != nullptr) {
        return zone + "/" + std::string(to_string(calendar->parts().unit));
    }
    const int64_t ms = quota.window.count();
    return zone + "/" +
           (ms % 1000 == 0 ? std::to_string(ms / 1000) + "s" : std::to_string(ms) + "ms");
}

std::string Rule::window_name() const {
    return calendar != nullptr ? calendar->name() : std::to_string(quota.window.count());
}

} // namespace rate_limit
