// Memory that goes all at once. Allocating it never throws.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace limiter {

/// Its first bytes are a part of it, which is enough for most of what is made in it.
class Arena {
  public:
    Arena() = default;
    ~Arena() {
        while (Block *block = blocks_) {
            blocks_ = block->next;
            block->~Block();
            ::operator delete(block);
        }
    }
    Arena(const Arena &) = delete;
    Arena &operator=(const Arena &) = delete;

    /// Makes an array of `count` objects without destructors. Returns null if memory ran out.
    template <typename T>
    T *array(size_t count) {
        static_assert(alignof(T) <= alignment && std::is_trivially_destructible_v<T>);
        void *memory = allocate(count * sizeof(T));
        return memory != nullptr ? new (memory) T[count] : nullptr;
    }
    /// Makes one object. Returns null if memory ran out.
    template <typename T, typename... Arguments>
    T *make(Arguments &&...arguments) {
        static_assert(alignof(T) <= alignment && std::is_trivially_destructible_v<T>);
        void *memory = allocate(sizeof(T));
        return memory != nullptr ? new (memory) T{std::forward<Arguments>(arguments)...} : nullptr;
    }
    /// Copies a text. Returns nothing if memory ran out.
    std::optional<std::string_view> copy(std::string_view text) {
        auto *bytes = static_cast<char *>(allocate(text.size()));
        if (bytes == nullptr) {
            return std::nullopt;
        }
        std::copy(text.begin(), text.end(), bytes);
        return std::string_view(bytes, text.size());
    }

  private:
    static constexpr size_t alignment = alignof(std::max_align_t);
    static constexpr size_t first_bytes = 3072;
    static constexpr size_t block_bytes = 4096;

    struct alignas(alignment) Block {
        Block *next;
    };

    void *allocate(size_t size) {
        size = (size + alignment - 1) / alignment * alignment;
        if (size > static_cast<size_t>(end_ - free_)) {
            const size_t room = std::max(size, block_bytes);
            void *memory = ::operator new(sizeof(Block) + room, std::nothrow);
            if (memory == nullptr) {
                return nullptr;
            }
            blocks_ = new (memory) Block{blocks_};
            free_ = reinterpret_cast<std::byte *>(blocks_ + 1);
            end_ = free_ + room;
        }
        return std::exchange(free_, free_ + size);
    }

    alignas(alignment) std::array<std::byte, first_bytes> first_;
    std::byte *free_ = first_.data();
    std::byte *end_ = free_ + first_bytes;
    Block *blocks_ = nullptr;
};

} // namespace limiter
