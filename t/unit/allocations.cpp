#include "allocations.hpp"

#include <new>

namespace {

bool objects_are_refused = false;

} // namespace

NoNewObjects::NoNewObjects() {
    objects_are_refused = true;
}

NoNewObjects::~NoNewObjects() {
    objects_are_refused = false;
}

void *operator new(size_t size, const std::nothrow_t & /*tag*/) noexcept {
    return objects_are_refused ? nullptr : ::operator new(size);
}

// Memory that is refused is null, as it is without AddressSanitizer, and it is refused early.
extern "C" const char *__asan_default_options() {
    static_assert(largest_possible_allocation == 4 << 20);
    return "allocator_may_return_null=1:max_allocation_size_mb=4";
}
