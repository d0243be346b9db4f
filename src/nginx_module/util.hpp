// Conversions between the types of nginx and of C++, and helpers for clocks and pools.
#pragma once

#include "nginx_module/ngx.hpp"

#include <chrono>
#include <ctime>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

namespace nginx_module {

inline std::string_view view(const ngx_str_t &text) {
    return {reinterpret_cast<const char *>(text.data), text.len};
}

/// Makes an nginx string of the text. nginx's strings are never const, but nginx may only read this
/// one.
inline ngx_str_t to_ngx(std::string_view text) {
    return {text.size(), reinterpret_cast<u_char *>(const_cast<char *>(text.data()))};
}

/// Returns the time of the event loop's clock. It never steps back, and it does not start again
/// from zero after 49 days on systems where nginx counts milliseconds in 32 bits.
inline std::chrono::milliseconds now() {
    static ngx_msec_t last = 0;
    static std::chrono::milliseconds total{0};
    total += std::chrono::milliseconds(ngx_current_msec - last);
    last = ngx_current_msec;
    return total;
}

/// Returns the time of a clock that never steps back, in microseconds. It is read at each call, not
/// once in a turn of the event loop.
inline std::chrono::microseconds precise_now() {
    return std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now().time_since_epoch());
}

/// Returns the time of a clock that goes on while the machine sleeps, too, and never steps back.
/// Leases end by it.
inline std::chrono::microseconds boot_now() {
    timespec time{};
    clock_gettime(CLOCK_BOOTTIME, &time); // it cannot fail: Linux has this clock
    return std::chrono::seconds(time.tv_sec) +
           std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::nanoseconds(time.tv_nsec));
}

/// Returns the Unix time, which may step.
inline std::chrono::microseconds unix_now() {
    return std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::system_clock::now().time_since_epoch());
}

/// Returns the Unix time of an instant that `clock` has told: precise_now or boot_now. It may be a
/// microsecond off.
inline std::chrono::microseconds unix_time_of(std::chrono::microseconds (*clock)(),
                                              std::chrono::microseconds instant) {
    return unix_now() - (clock() - instant);
}

/// Whether a line may be written that was last written at `last`, which is then now.
inline bool is_due(time_t &last, time_t seconds) {
    if (ngx_time() - last < seconds) {
        return false;
    }
    last = ngx_time();
    return true;
}

/// Makes an array of `count` objects without destructors in the pool. Returns null if memory ran
/// out.
template <typename T>
T *pool_array(ngx_pool_t *pool, size_t count) {
    static_assert(alignof(T) <= NGX_ALIGNMENT && std::is_trivially_destructible_v<T>);
    auto *array = static_cast<T *>(ngx_palloc(pool, count * sizeof(T)));
    return array != nullptr ? new (array) T[count] : nullptr;
}

/// Copies the text to the pool, so that it outlives what it refers to. Returns false if memory ran
/// out.
inline bool copy_text(ngx_pool_t *pool, std::string_view &text) {
    ngx_str_t from = to_ngx(text);
    text = view({from.len, ngx_pstrdup(pool, &from)});
    return text.data() != nullptr;
}

/// Makes a T in the pool, which is destroyed with the pool. Returns null if memory ran out.
template <typename T, typename... Arguments>
T *pool_new(ngx_pool_t *pool, ngx_pool_cleanup_pt destroy, Arguments &&...arguments) {
    static_assert(alignof(T) <= NGX_ALIGNMENT);
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(pool, sizeof(T));
    if (cleanup == nullptr) {
        return nullptr;
    }
    cleanup->handler = destroy;
    return new (cleanup->data) T{std::forward<Arguments>(arguments)...};
}

/// Returns the T that pool_new() has made with this function to destroy it, or null. It may be
/// asked for where nginx forgets the contexts of modules, as for internal redirects.
template <typename T>
T *find_in_pool(const ngx_pool_t *pool, ngx_pool_cleanup_pt destroy) {
    for (const auto *cleanup = pool->cleanup; cleanup != nullptr; cleanup = cleanup->next) {
        if (cleanup->handler == destroy) {
            return static_cast<T *>(cleanup->data);
        }
    }
    return nullptr;
}

template <typename T>
void destroy(void *object) noexcept {
    static_cast<T *>(object)->~T();
}

} // namespace nginx_module
