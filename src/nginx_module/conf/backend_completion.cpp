#include "nginx_module/conf/backend_completion.hpp"

#include "nginx_module/conf/parameters.hpp"
#include "nginx_module/conf/resolver.hpp"
#include "rate_limit/text/row_names.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace nginx_module {

using redis_client::Address;
using redis_client::ModeTraits;
using redis_client::ServerAddress;

namespace {

/// Returns the server's name in the configuration, without the port.
std::string_view name_of(const ServerAddress &server) {
    return server.is_local() ? server.addresses.front().text() : std::string_view(server.host);
}

/// Returns the server's name in the configuration, with the port.
std::string text_of(const ServerAddress &server) {
    if (server.is_local()) {
        return server.addresses.front().text();
    }
    const bool is_ipv6 = server.host.find(':') != std::string::npos;
    return (is_ipv6 ? '[' + server.host + ']' : server.host) + ':' + std::to_string(server.port);
}

char *check_hash_slots(ngx_conf_t *cf, const BackendConf &backend) {
    const std::string with_mode = "with mode " + std::string(backend.traits().name);
    if (backend.session.database != 0) {
        return refuse(cf, backend_directive, "database", std::to_string(backend.session.database),
                      "0 " + with_mode);
    }
    const auto socket = std::ranges::find_if(backend.servers, &ServerAddress::is_local);
    if (socket != backend.servers.end()) {
        return refuse(cf, backend_directive, "server", name_of(*socket),
                      "host or host:port " + with_mode);
    }
    return NGX_CONF_OK;
}

/// Refuses lines of the block that contradict each other.
char *check_lines(ngx_conf_t *cf, const BackendConf &backend) {
    const auto &session = backend.session;
    if (!session.username.empty() && session.password.empty()) {
        return refuse(cf, backend_directive, "username", session.username,
                      "a password or password_file with it");
    }
    const auto &sentinel = backend.sentinel;
    if (!sentinel.username.empty() && sentinel.password.empty()) {
        return refuse(cf, backend_directive, "sentinel_username", sentinel.username,
                      "a sentinel_password or sentinel_password_file with it");
    }
    const bool has_sentinels = backend.traits().asks_for_master;
    if (has_sentinels != !sentinel.master_name.empty()) {
        return refuse(cf, backend_directive, "sentinel_master", sentinel.master_name,
                      "the master's name with mode sentinel, and none without");
    }
    if (!has_sentinels && !sentinel.password.empty()) {
        return refuse(cf, backend_directive, "sentinel_password", "***", "mode sentinel with it");
    }
    if (backend.traits().has_one_server && backend.servers.size() > 1) {
        const auto has_more = [](const ModeTraits &traits) { return !traits.has_one_server; };
        return refuse(cf, backend_directive, "server", name_of(backend.servers[1]),
                      "one server without mode " +
                          rate_limit::names_of_rows(redis_client::mode_table, has_more));
    }
    return backend.traits().has_hash_slots ? check_hash_slots(cf, backend) : NGX_CONF_OK;
}

/// Sets what the block leaves out: a server, ports (they depend on the mode), and the addresses of
/// hosts that are written as addresses.
void complete_servers(BackendConf &backend) {
    if (backend.servers.empty()) {
        backend.servers.push_back({.host = "127.0.0.1"});
    }
    for (ServerAddress &server : backend.servers) {
        if (server.port == 0) {
            server.port = backend.traits().port;
        }
        if (server.addresses.empty()) {
            server.addresses = redis_client::literal_address(server.host, server.port);
        }
        backend.server_texts.push_back(text_of(server));
    }
}

char *set_up_tls(ngx_conf_t *cf, BackendConf &backend) {
    const TlsSettings &settings = backend.tls_settings;
    if (!settings.is_on.has_value() && settings != TlsSettings{}) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "%s: without \"ssl on\" other lines of ssl_* have no effect, and the "
                           "connections are not encrypted",
                           backend_directive);
    }
    if (!settings.is_on.value_or(false)) {
        return NGX_CONF_OK;
    }
    if (settings.certificate.empty() != settings.certificate_key.empty()) {
        return refuse(cf, backend_directive, "ssl_certificate", settings.certificate,
                      "an ssl_certificate and an ssl_certificate_key, or neither");
    }
    const bool has_socket = std::ranges::any_of(backend.servers, &ServerAddress::is_local);
    if (has_socket && settings.name.empty()) {
        return refuse(cf, backend_directive, "ssl", "on",
                      "an ssl_name with it, for a unix socket has no name");
    }
    backend.tls = TlsContext::make(cf, settings);
    return backend.tls != nullptr ? NGX_CONF_OK : static_cast<char *>(NGX_CONF_ERROR);
}

/// Returns the addresses of a name. If there are none, the log says why.
std::vector<Address> look_up(ngx_conf_t *cf, const BackendConf &backend,
                             const ServerAddress &server) {
    ngx_url_t url{};
    url.url = to_ngx(server.host);
    url.default_port = server.port;
    if (ngx_parse_url(cf->pool, &url) != NGX_OK) {
        const bool is_refused = backend.resolver == nullptr;
        const ngx_uint_t level = is_refused ? NGX_LOG_EMERG : NGX_LOG_WARN;
        ngx_log_error(level, cf->log, 0,
                      "%s: invalid server \"%V\" of \"%s\" (%s), expected a host that "
                      "resolves, or %s",
                      backend_directive, &url.url, backend.name.c_str(),
                      url.err != nullptr ? url.err : "no memory",
                      is_refused ? "a resolver" : "that the resolver knows later");
        return {};
    }
    std::vector<Address> addresses;
    for (const ngx_addr_t &found : std::span(url.addrs, url.naddrs)) {
        addresses.emplace_back(found.sockaddr, found.socklen);
    }
    return addresses;
}

} // namespace

char *complete_backend(ngx_conf_t *cf, BackendConf &backend) {
    if (char *result = check_lines(cf, backend); result != NGX_CONF_OK) {
        return result;
    }
    complete_servers(backend);
    return set_up_tls(cf, backend);
}

bool look_up_servers(ngx_conf_t *cf, BackendConf &backend, ngx_resolver_t *resolver) {
    backend.resolver = resolver;
    backend.has_resolver = resolver != nullptr;
    if (resolver != nullptr && !may_be_implied(*resolver)) {
        return true;
    }
    for (ServerAddress &server : backend.servers) {
        if (!server.addresses.empty()) {
            continue;
        }
        std::vector<Address> found = look_up(cf, backend, server);
        if (found.empty() && resolver == nullptr) {
            return false;
        }
        (resolver != nullptr ? server.spare : server.addresses) = std::move(found);
    }
    return true;
}

BackendConf &add_default_backend(MainConf &main) {
    BackendConf &backend = main.add_backend("default");
    complete_servers(backend);
    return backend;
}

} // namespace nginx_module
