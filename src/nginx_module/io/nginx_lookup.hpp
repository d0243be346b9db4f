// Looks up names with nginx's resolver.
#pragma once

#include "nginx_module/ngx.hpp"

#include "redis_client/io/name_lookup.hpp"

namespace nginx_module {

class NginxLookup final : public redis_client::NameLookup {
  public:
    NginxLookup(Callbacks &callbacks, ngx_resolver_t &resolver)
        : callbacks_(callbacks), resolver_(resolver) {}
    ~NginxLookup() override { end(); }

    bool start(std::string_view name, in_port_t port) override;

  private:
    void on_end();
    void end();

    Callbacks &callbacks_;
    ngx_resolver_t &resolver_;
    ngx_resolver_ctx_t *lookup_ = nullptr;
    in_port_t port_ = 0;
};

} // namespace nginx_module
