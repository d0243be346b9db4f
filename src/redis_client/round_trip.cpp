#include "round_trip.hpp"

namespace redis_client {

void RoundTrip::add(Time took, size_t checks) {
    constexpr Time work_of_check{10}; // of Redis and of the worker, generously
    if (samples_++ == samples_of_window) {
        samples_ = 1;
        shortest_before_ = shortest_;
        shortest_ = Time::max();
    }
    shortest_ = std::min(shortest_, took - work_of_check * static_cast<int64_t>(checks));
}

} // namespace redis_client
