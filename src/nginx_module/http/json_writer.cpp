#include "nginx_module/http/json_writer.hpp"

namespace nginx_module {

void PooledText::add_buffer() {
    constexpr size_t size = 4000; // a little less than a page: the pool has a header
    ngx_buf_t *buffer = is_short_of_memory_ ? nullptr : ngx_create_temp_buf(pool_, size);
    ngx_chain_t *link = buffer != nullptr ? ngx_alloc_chain_link(pool_) : nullptr;
    if (link == nullptr) {
        is_short_of_memory_ = true;
        return;
    }
    link->buf = buffer;
    link->next = nullptr;
    (last_ != nullptr ? last_->next : first_) = link;
    last_ = link;
}

} // namespace nginx_module
