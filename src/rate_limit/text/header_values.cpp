#include "rate_limit/text/header_values.hpp"

#include "rate_limit/text/text_writer.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

char *append(char *at, uint64_t number) {
    NumberBuffer digits;
    return rate_limit::append(at, write_number(number, digits));
}

} // namespace

uint64_t seconds_up(std::chrono::microseconds time) {
    return static_cast<uint64_t>(std::chrono::ceil<std::chrono::seconds>(time).count());
}

std::string_view write_rate_limit_policy_item(std::string_view name, const Quota &quota,
                                              ItemBuffer &out) {
    char *at = append(out.data(), "\"");
    at = append(at, name);
    at = append(at, "\";q=");
    at = append(at, quota.capacity());
    if (holds_permits(quota.algorithm)) {
        at = append(at, ";qu=\"concurrent-requests\"");
    } else {
        at = append(at, ";w=");
        at = append(at, std::max<uint64_t>(seconds_up(quota.refill()), 1));
    }
    return {out.data(), static_cast<size_t>(at - out.data())};
}

std::string_view write_rate_limit_item(std::string_view name, const Verdict &verdict,
                                       ItemBuffer &out) {
    char *at = append(out.data(), "\"");
    at = append(at, name);
    at = append(at, "\";r=");
    at = append(at, verdict.remaining);
    if (verdict.next_unit > std::chrono::microseconds::zero()) {
        at = append(at, ";t=");
        at = append(at, seconds_up(verdict.next_unit));
    }
    return {out.data(), static_cast<size_t>(at - out.data())};
}

} // namespace rate_limit
