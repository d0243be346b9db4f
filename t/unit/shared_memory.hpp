// Memory that a test shares with its child processes.
#pragma once

#include <new>

#include <sys/mman.h>

/// Has a T whose members are all zeros at first.
template <typename T>
class SharedMemory {
  public:
    SharedMemory()
        : memory_(
              mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
        if (*this) {
            new (memory_) T{};
        }
    }
    ~SharedMemory() {
        if (*this) {
            munmap(memory_, sizeof(T));
        }
    }
    SharedMemory(const SharedMemory &) = delete;
    SharedMemory &operator=(const SharedMemory &) = delete;

    explicit operator bool() const { return memory_ != MAP_FAILED; }
    T *operator->() const { return static_cast<T *>(memory_); }
    T &operator*() const { return *static_cast<T *>(memory_); }

  private:
    void *memory_;
};
