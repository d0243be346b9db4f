// Bytes that wait to be sent: appended at the end, and taken from the front as the socket takes
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace redis_client {

class ByteQueue {
  public:
    /// Makes room for `size` more bytes, which may be appended then. Returns false if memory ran
    /// out; then nothing has changed.
    bool reserve(size_t size);
    void append(std::string_view bytes); // within what was reserved

    std::string_view bytes() const { return {data_.get() + begin_, end_ - begin_}; }
    bool empty() const { return begin_ == end_; }
    void consume(size_t size);
    void clear() { consume(end_ - begin_); }

    /// How many bytes ever went in, and how many out.
    uint64_t appended() const { return consumed_ + (end_ - begin_); }
    uint64_t consumed() const { return consumed_; }

  private:
    struct Free {
        void operator()(char *memory) const { std::free(memory); }
    };

    std::unique_ptr<char, Free> data_;
    size_t capacity_ = 0;
    size_t begin_ = 0;
    size_t end_ = 0;
    uint64_t consumed_ = 0;
};

} // namespace redis_client
