// Objects that come and go all the time: made when there is no spare one, kept until the end.
#pragma once

#include <memory>
#include <new>
#include <utility>

namespace redis_client {

/// A base of T, for ObjectPool<T>.
template <typename T>
class Pooled {
    template <typename>
    friend class ObjectPool;
    T *next_spare_ = nullptr;
    std::unique_ptr<T> older_; // made before this one
};

template <typename T>
class ObjectPool {
  public:
    ObjectPool() = default;
    ObjectPool(const ObjectPool &) = delete;
    ObjectPool &operator=(const ObjectPool &) = delete;
    ~ObjectPool() {
        while (all_ != nullptr) {
            all_ = std::move(all_->older_); // one by one: a chain of destructors could be deep
        }
    }

    /// Returns an object with a fresh value, or null if memory ran out.
    T *take() {
        if (spare_ == nullptr) {
            std::unique_ptr<T> fresh(new (std::nothrow) T);
            if (fresh == nullptr) {
                return nullptr;
            }
            fresh->older_ = std::move(all_);
            all_ = std::move(fresh);
            spare_ = all_.get();
        }
        T *taken = spare_;
        spare_ = taken->next_spare_;
        std::unique_ptr<T> older = std::move(taken->older_);
        *taken = T{};
        taken->older_ = std::move(older);
        ++in_use_;
        return taken;
    }

    void give_back(T &object) {
        object.next_spare_ = spare_;
        spare_ = &object;
        --in_use_;
    }

    size_t in_use() const { return in_use_; }

  private:
    std::unique_ptr<T> all_; // a chain by `older_`
    T *spare_ = nullptr;     // a stack by `next_spare_`
    size_t in_use_ = 0;
};

} // namespace redis_client
