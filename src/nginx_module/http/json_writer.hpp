// Writes JSON into the request's pool.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "rate_limit/text/json_writer.hpp"

namespace nginx_module {

using rate_limit::Null;

/// A text, in buffers of the pool. After memory has run out it takes no more.
class PooledText {
  public:
    explicit PooledText(ngx_pool_t *pool) : pool_(pool) {}

    void put(char c) {
        if (last_ == nullptr || last_->buf->last == last_->buf->end) {
            add_buffer();
        }
        if (!is_short_of_memory_) {
            *last_->buf->last++ = static_cast<u_char>(c);
        }
    }

    /// Returns the text. Its buffer is null if memory ran out.
    ngx_chain_t finish() const { return is_short_of_memory_ ? ngx_chain_t{} : *first_; }

  private:
    void add_buffer();

    ngx_pool_t *pool_;
    ngx_chain_t *first_ = nullptr;
    ngx_chain_t *last_ = nullptr;
    bool is_short_of_memory_ = false;
};

class JsonWriter : public rate_limit::JsonWriter<PooledText> {
  public:
    explicit JsonWriter(ngx_pool_t *pool)
        : rate_limit::JsonWriter<PooledText>(rate_limit::JsonLayout::indented, pool) {}
};

} // namespace nginx_module
