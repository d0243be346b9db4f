#include "locator.hpp"

#include "util.hpp"

#include <algorithm>

namespace nginx_module {

Address::Address(const sockaddr *address, socklen_t size) : size_(size) {
    std::copy_n(reinterpret_cast<const char *>(address), size, reinterpret_cast<char *>(&address_));
    text_size_ = ngx_sock_ntop(&address_.sockaddr, size_, reinterpret_cast<u_char *>(text_.data()),
                               text_.size(), 1);
}

ngx_addr_t Address::addr() const {
    ngx_addr_t addr{};
    addr.sockaddr = const_cast<sockaddr *>(&address_.sockaddr);
    addr.socklen = size_;
    addr.name = to_ngx(text());
    return addr;
}

} // namespace nginx_module
