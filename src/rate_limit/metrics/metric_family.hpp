// A metric of Prometheus.
#pragma once

#include <string_view>

namespace rate_limit {

struct MetricFamily {
    std::string_view name; // none: Prometheus does not get it
    std::string_view help;
    std::string_view label{}; // tells the rows of one family apart; none: it has one
    std::string_view type = "counter";
};

} // namespace rate_limit
