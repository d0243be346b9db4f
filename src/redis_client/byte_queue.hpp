// Bytes on their way out: appended at the end, taken from the front as the socket takes them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace redis_client {

class ByteQueue {
  public:
    /// Room for `size` more bytes; to be followed by `append`s of that many at most.
    /// False without memory, and nothing has changed.
    bool reserve(size_t size);
    void append(std::string_view bytes); // within what was reserved

    std::string_view bytes() const { return {data_.get() + begin_, end_ - begin_}; }
    bool empty() const { return begin_ == end_; }
    void consume(size_t size);
    void clear() { begin_ = end_ = 0; }

  private:
    struct Free {
        void operator()(char *memory) const { std::free(memory); }
    };

    std::unique_ptr<char, Free> data_;
    size_t capacity_ = 0;
    size_t begin_ = 0;
    size_t end_ = 0;
};

} // namespace redis_client
