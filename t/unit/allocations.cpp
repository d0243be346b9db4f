#include "allocations.hpp"

#include <algorithm>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
// Of sanitizer/allocator_interface.h, which not every GCC package has.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void *,
                                                                             size_t),
                                                         void (*free_hook)(const volatile void *));
#endif

namespace {

bool objects_are_refused = false;
Allocations seen;

} // namespace

void watch_allocations() {
#if defined(__SANITIZE_ADDRESS__)
    [[maybe_unused]] static const int hooks = __sanitizer_install_malloc_and_free_hooks(
        [](const volatile void *, size_t size) {
            ++seen.count;
            seen.largest = std::max(seen.largest, size);
        },
        [](const volatile void *) {});
#endif
    seen = {};
}

Allocations watched_allocations() {
    return seen;
}

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
