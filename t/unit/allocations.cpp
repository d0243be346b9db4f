#include "allocations.hpp"

// Memory that is refused is null, as it is without AddressSanitizer, and it is refused early.
extern "C" const char *__asan_default_options() {
    static_assert(largest_possible_allocation == 4 << 20);
    return "allocator_may_return_null=1:max_allocation_size_mb=4";
}
