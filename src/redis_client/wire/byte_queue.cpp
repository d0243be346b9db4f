#include "redis_client/wire/byte_queue.hpp"

#include "rate_limit/text/text_writer.hpp"

#include <algorithm>
#include <cstring>

namespace redis_client {

bool ByteQueue::reserve(size_t size) {
    if (capacity_ - end_ >= size) {
        return true;
    }
    const size_t used = end_ - begin_;
    if (begin_ > 0 && used <= capacity_ / 2 && capacity_ - used >= size) {
        std::memmove(data_.get(), data_.get() + begin_, used);
        begin_ = 0;
        end_ = used;
        return true;
    }
    constexpr size_t smallest = 4096;
    const size_t wanted = std::max({smallest, capacity_ * 2, end_ + size});
    auto *grown = static_cast<char *>(std::realloc(data_.get(), wanted));
    if (grown == nullptr) {
        return false;
    }
    (void)data_.release();
    data_.reset(grown);
    capacity_ = wanted;
    return true;
}

void ByteQueue::append(std::string_view bytes) {
    rate_limit::append(data_.get() + end_, bytes);
    end_ += bytes.size();
}

void ByteQueue::consume(size_t size) {
    begin_ += size;
    consumed_ += size;
    if (begin_ == end_) {
        begin_ = end_ = 0;
    }
}

} // namespace redis_client
