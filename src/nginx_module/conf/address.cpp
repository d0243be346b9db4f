#include "nginx_module/conf/address.hpp"

#include "nginx_module/util.hpp"

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

std::vector<Address> literal_address(std::string_view host, in_port_t port) {
    const ngx_str_t text = to_ngx(host);
    ngx_sockaddr_t address{};
    address.sockaddr_in.sin_addr.s_addr = ngx_inet_addr(text.data, text.len);
    if (address.sockaddr_in.sin_addr.s_addr != INADDR_NONE) {
        address.sockaddr_in.sin_family = AF_INET;
        address.sockaddr_in.sin_port = htons(port);
        return {Address(&address.sockaddr, sizeof(sockaddr_in))};
    }
#if (NGX_HAVE_INET6)
    address = {};
    if (ngx_inet6_addr(text.data, text.len, address.sockaddr_in6.sin6_addr.s6_addr) == NGX_OK) {
        address.sockaddr_in6.sin6_family = AF_INET6;
        address.sockaddr_in6.sin6_port = htons(port);
        return {Address(&address.sockaddr, sizeof(sockaddr_in6))};
    }
#endif
    return {};
}

} // namespace nginx_module
