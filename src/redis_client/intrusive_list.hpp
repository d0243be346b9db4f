// A doubly linked list whose links live in its elements: adding and removing allocate nothing.
#pragma once

namespace redis_client {

template <typename T>
struct ListHook {
    T *previous = nullptr;
    T *next = nullptr;
};

/// The list does not own its elements. An element is in at most one list for each of its hooks.
template <typename T, ListHook<T> T::*hook>
class IntrusiveList {
  public:
    T *front() const { return first_; }
    T *back() const { return last_; }
    bool empty() const { return first_ == nullptr; }

    void push_back(T &element) { insert_after(last_, element); }

    /// Inserts at the front if `previous` is null.
    void insert_after(T *previous, T &element) {
        T *&next_of_previous = previous != nullptr ? (previous->*hook).next : first_;
        T *const next = next_of_previous;
        (element.*hook) = {.previous = previous, .next = next};
        next_of_previous = &element;
        (next != nullptr ? (next->*hook).previous : last_) = &element;
    }

    /// Moves the elements of another list to the end.
    void append(IntrusiveList &other) {
        if (other.empty()) {
            return;
        }
        (other.first_->*hook).previous = last_;
        (last_ != nullptr ? (last_->*hook).next : first_) = other.first_;
        last_ = other.last_;
        other = IntrusiveList();
    }

    void remove(T &element) {
        auto &[previous, next] = element.*hook;
        (previous != nullptr ? (previous->*hook).next : first_) = next;
        (next != nullptr ? (next->*hook).previous : last_) = previous;
        previous = next = nullptr;
    }

  private:
    T *first_ = nullptr;
    T *last_ = nullptr;
};

} // namespace redis_client
