// What a piece of code allocates, and what happens where it cannot.
#pragma once

#include <algorithm>
#include <cstddef>

/// No allocation beyond it succeeds, where the build has AddressSanitizer.
inline constexpr size_t largest_possible_allocation = 4 << 20;

#if defined(__SANITIZE_ADDRESS__)
// Of sanitizer/allocator_interface.h, which not every GCC package has.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void *,
                                                                             size_t),
                                                         void (*free_hook)(const volatile void *));
#endif

/// The size of the largest single allocation, seen through AddressSanitizer, while `run` runs, in
/// bytes; 0 where the build has no AddressSanitizer to ask. What claims to hold little memory
/// cannot hide a large block from it.
template <typename Run>
size_t largest_allocation(Run run) {
    static size_t largest = 0;
#if defined(__SANITIZE_ADDRESS__)
    [[maybe_unused]] static const int hooks = __sanitizer_install_malloc_and_free_hooks(
        [](const volatile void *, size_t size) { largest = std::max(largest, size); },
        [](const volatile void *) {});
#endif
    largest = 0;
    run();
    return largest;
}

/// While it lives, no object can be made: `new (std::nothrow)` gives null.
class NoNewObjects {
  public:
    NoNewObjects();
    ~NoNewObjects();
    NoNewObjects(const NoNewObjects &) = delete;
    NoNewObjects &operator=(const NoNewObjects &) = delete;
};
