// The directive redis_rate_limit_backend, and the lines of its block.
#include "nginx_module/conf/backend_completion.hpp"
#include "nginx_module/conf/configuration.hpp"
#include "nginx_module/conf/directive_readers.hpp"
#include "nginx_module/conf/parameters.hpp"
#include "nginx_module/conf/warnings.hpp"
#include "rate_limit/text/row_names.hpp"
#include "rate_limit/text/times_and_numbers.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace nginx_module {

using redis_client::ModeTraits;

namespace {

/// The backend that the block's lines fill in, and which lines were given.
struct Block {
    ngx_conf_t *cf;
    BackendConf &backend;
    rate_limit::GivenParameters given;
};

/// Returns null, or what was expected instead.
const char *set_count(std::string_view value, uint64_t &target) {
    const auto number = rate_limit::parse_whole_number(value, 1'000'000);
    target = number.value_or(0);
    return target > 0 ? nullptr : "a whole number from 1 to 1000000";
}

/// Sets `target` to a time from 1 ms to 1 hour. Returns false, and leaves it alone, if the value is
/// none.
bool set_time(std::string_view value, std::chrono::milliseconds &target) {
    const std::chrono::milliseconds time = rate_limit::parse_time(value);
    if (time.count() < 1 || time > std::chrono::hours{1}) {
        return false;
    }
    target = time;
    return true;
}

constexpr const char *expected_time = "a time from 1ms to 1h, such as 100ms";

/// Sets a time for which requests may wait. Returns null, or what was expected instead. Warns of
/// more than 10 seconds, because it is easy to mean milliseconds and to forget the unit.
const char *set_timeout(ngx_conf_t *cf, std::string_view value, std::chrono::milliseconds &target) {
    constexpr std::chrono::seconds longest_usual{10};
    if (!set_time(value, target)) {
        return expected_time;
    }
    if (target > longest_usual) {
        const ngx_str_t *words = words_of(cf).data();
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "%s: %V \"%V\" is %L ms, expected at most 10s, such as 100ms (a time "
                           "without a unit is in seconds)",
                           backend_directive, words, words + 1,
                           static_cast<int64_t>(target.count()));
    }
    return nullptr;
}

constexpr const char *expected_server = "host, host:port, [address]:port or unix:/path";

/// Adds a server. Its name is looked up later: whether there is a resolver is known only after all
/// directives have been read.
const char *set_server(Block &block, std::string_view value) {
    ngx_conf_t *cf = block.cf;
    ngx_url_t url{};
    url.url = to_ngx(value);
    const bool is_path = ngx_strncasecmp(url.url.data, to_ngx("unix:").data, 5) == 0;
    if (!is_path && value.find_first_of("/@?=,") != std::string_view::npos) {
        refuse(cf, backend_directive, "server", "***",
               expected_server); // a URL may hold a password
        return already_logged;
    }
    url.no_resolve = 1;
    if (ngx_parse_url(cf->pool, &url) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s: invalid server \"%V\" (%s), expected %s",
                           backend_directive, &url.url, url.err != nullptr ? url.err : "no memory",
                           expected_server);
        return already_logged;
    }
    if (url.family == AF_UNIX && !value.substr(5).starts_with('/')) {
        return expected_server; // it would depend on the directory in which nginx starts
    }
    std::string_view host = view(url.host);
    if (url.family != AF_UNIX && host.find_first_not_of("0123456789") == std::string_view::npos) {
        return expected_server; // a port alone would be resolved as an address
    }
    if (host.starts_with('[')) {
        host = host.substr(1, host.size() - 2); // the brackets of IPv6
    }
    redis_client::ServerAddress server{.host = std::string(host), .port = url.port};
    if (url.family == AF_UNIX) {
        server = {
            .host = {},
            .addresses = {redis_client::Address(url.addrs[0].sockaddr, url.addrs[0].socklen)}};
    }
    block.backend.servers.push_back(std::move(server));
    return nullptr;
}

const char *set_mode(Block &block, std::string_view value) {
    const auto *known = std::ranges::find(redis_client::mode_table, value, &ModeTraits::name);
    if (known == redis_client::mode_table.end()) {
        static const std::string expected = rate_limit::names_of_rows(
            redis_client::mode_table, [](const ModeTraits &) { return true; });
        return expected.c_str();
    }
    block.backend.mode = known->mode;
    block.backend.session.needs_master = known->asks_for_master;
    return nullptr;
}

const char *take_password(std::string_view value, std::string &target) {
    if (value.empty() || !target.empty()) {
        return "one password or password_file";
    }
    target = value;
    return nullptr;
}

/// Returns the first line of a file. Returns nothing if the file cannot be read or the line has
/// 4096 bytes or more, with the reason in errno; and if the line is empty, with errno 0.
std::optional<std::string> first_line(const char *path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file == -1) {
        return std::nullopt;
    }
    std::array<char, 4096> text;
    const ssize_t size = read(file, text.data(), text.size());
    const int error = size < 0 ? errno : 0;
    close(file);
    const std::string_view all(text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
    const std::string_view line = all.substr(0, all.find_first_of("\r\n"));
    if (line.size() == text.size()) {
        errno = EFBIG;
        return std::nullopt;
    }
    errno = error;
    return line.empty() ? std::nullopt : std::optional<std::string>(line);
}

const char *take_password_file(ngx_conf_t *cf, std::string_view value, std::string &target) {
    ngx_str_t path = to_ngx(value);
    if (ngx_conf_full_name(cf->cycle, &path, 1) != NGX_OK) {
        return "a path";
    }
    const auto password = first_line(reinterpret_cast<const char *>(path.data));
    if (!password) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "%s: invalid %V \"%V\", expected a readable file whose "
                           "first line is the password",
                           backend_directive, words_of(cf).data(), &path);
        return already_logged;
    }
    return take_password(*password, target);
}

using redis_client::Breaker;

const Parameter<Breaker::Settings> breaker_parameters[] = {
    {"failures",
     [](Breaker::Settings &breaker, std::string_view value) -> const char * {
         return set_count(value, breaker.failures);
     }},
    {"cooldown",
     [](Breaker::Settings &breaker, std::string_view value) -> const char * {
         return set_time(value, breaker.cooldown) ? nullptr : expected_time;
     }},
};

const char *set_breaker(Block &block, std::string_view value) {
    Breaker::Settings &breaker = block.backend.session.breaker;
    const auto values = values_of(block.cf);
    if (value == "off") {
        breaker.failures = 0;
        return values.size() == 1 ? nullptr : "off alone, or failures= and cooldown=";
    }
    const char *result = result_of(
        block.cf, "redis_rate_limit_backend: breaker",
        rate_limit::set_parameters<Breaker::Settings>(breaker_parameters, values, breaker));
    return result == NGX_CONF_OK ? nullptr : already_logged;
}

const char *set_switch(std::string_view value, bool &target) {
    target = value == "on";
    return target || value == "off" ? nullptr : "on or off";
}

const char *set_text(std::string_view value, std::string &target) {
    target = value;
    return value.empty() ? "one that is not empty" : nullptr;
}

const char *set_tls_versions(Block &block, std::string_view /*first*/) {
    ngx_conf_t *cf = block.cf;
    constexpr std::pair<std::string_view, TlsVersion> versions[] = {
        {"TLSv1", tls_1_0}, {"TLSv1.1", tls_1_1}, {"TLSv1.2", tls_1_2}, {"TLSv1.3", tls_1_3}};
    unsigned &given = block.backend.tls_settings.versions;
    given = 0;
    for (const ngx_str_t &word : words_of(cf).subspan(1)) {
        const auto *known =
            std::ranges::find(versions, view(word), [](auto &v) { return v.first; });
        if (known == std::end(versions)) {
            refuse(cf, backend_directive, "ssl_protocols", view(word),
                   "some of TLSv1 TLSv1.1 TLSv1.2 TLSv1.3");
            return already_logged;
        }
        given |= known->second;
    }
    return nullptr;
}

constexpr std::string_view lines_of_several_values[] = {"breaker", "ssl_protocols"};

const Parameter<Block> parameters[] = {
    {"server", set_server, Is::repeated},
    {"mode", set_mode},
    {"username",
     [](Block &block, std::string_view value) -> const char * {
         block.backend.session.username = value;
         return value.empty() ? "a name" : nullptr;
     }},
    {"password",
     [](Block &block, std::string_view value) -> const char * {
         return take_password(value, block.backend.session.password);
     },
     Is::secret},
    {"password_file",
     [](Block &block, std::string_view value) -> const char * {
         return take_password_file(block.cf, value, block.backend.session.password);
     }},
    {"sentinel_master",
     [](Block &block, std::string_view value) -> const char * {
         return set_text(value, block.backend.sentinel.master_name);
     }},
    {"sentinel_username",
     [](Block &block, std::string_view value) -> const char * {
         return set_text(value, block.backend.sentinel.username);
     }},
    {"sentinel_password",
     [](Block &block, std::string_view value) -> const char * {
         return take_password(value, block.backend.sentinel.password);
     },
     Is::secret},
    {"sentinel_password_file",
     [](Block &block, std::string_view value) -> const char * {
         return take_password_file(block.cf, value, block.backend.sentinel.password);
     }},
    {"database",
     [](Block &block, std::string_view value) -> const char * {
         const auto number = rate_limit::parse_whole_number(value, INT32_MAX);
         block.backend.session.database = number.value_or(0);
         return number ? nullptr : "a whole number from 0";
     }},
    {"prefix",
     [](Block &block, std::string_view value) -> const char * {
         // A `$` is refused because a variable would be taken literally.
         const bool plain = std::ranges::all_of(
             value, [](char c) { return c > ' ' && c <= '~' && c != '{' && c != '}' && c != '$'; });
         block.backend.prefix = value;
         return plain && value.size() <= rate_limit::longest_prefix
                    ? nullptr
                    : "at most 64 printable characters without spaces, braces and $";
     }},
    {"connect_timeout",
     [](Block &block, std::string_view value) -> const char * {
         return set_timeout(block.cf, value, block.backend.connect_timeout);
     }},
    {"timeout",
     [](Block &block, std::string_view value) -> const char * {
         return set_timeout(block.cf, value, block.backend.session.timeout);
     }},
    {"max_pending",
     [](Block &block, std::string_view value) -> const char * {
         return set_count(value, block.backend.session.max_pending);
     }},
    {"breaker", set_breaker},
    {"ssl",
     [](Block &block, std::string_view value) -> const char * {
         return set_switch(value, block.backend.tls_settings.is_on.emplace());
     }},
    {"ssl_verify",
     [](Block &block, std::string_view value) -> const char * {
         return set_switch(value, block.backend.tls_settings.verifies);
     }},
    {"ssl_verify_depth",
     [](Block &block, std::string_view value) -> const char * {
         const auto number = rate_limit::parse_whole_number(value, 100);
         block.backend.tls_settings.verify_depth = number.value_or(0);
         return number ? nullptr : "a whole number from 0 to 100";
     }},
    {"ssl_name",
     [](Block &block, std::string_view value) -> const char * {
         return set_text(value, block.backend.tls_settings.name);
     }},
    {"ssl_trusted_certificate",
     [](Block &block, std::string_view value) -> const char * {
         return set_text(value, block.backend.tls_settings.trusted_certificate);
     }},
    {"ssl_certificate",
     [](Block &block, std::string_view value) -> const char * {
         return set_text(value, block.backend.tls_settings.certificate);
     }},
    {"ssl_certificate_key",
     [](Block &block, std::string_view value) -> const char * {
         return set_text(value, block.backend.tls_settings.certificate_key);
     }},
    {"ssl_ciphers",
     [](Block &block, std::string_view value) -> const char * {
         return set_text(value, block.backend.tls_settings.ciphers);
     }},
    {"ssl_protocols", set_tls_versions},
};

char *set_block_line(ngx_conf_t *cf, ngx_command_t *command, void *conf) {
    auto &block = *static_cast<Block *>(conf);
    const auto words = words_of(cf);
    const std::string_view name = view(words[0]);
    const Parameter<Block> *parameter = rate_limit::find_parameter<Block>(parameters, name);
    const bool is_include = name == "include";
    if (parameter == nullptr && !is_include) {
        return result_of(cf, backend_directive,
                         rate_limit::refused_unknown<Block>(
                             parameters, name.substr(0, name.find_first_of("=:"))));
    }
    if (name.ends_with("password") && looks_like_variable(view(words.back()))) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "%s: %V is a variable, which has no value here, so that its name is the "
                           "password, expected %V_file, also for a password that is written so",
                           backend_directive, words.data(), words.data());
    }
    const bool takes_several =
        std::ranges::find(lines_of_several_values, name) != std::end(lines_of_several_values);
    if (words.size() != 2 && (words.size() < 2 || !takes_several)) {
        return refuse(cf, backend_directive, "number of values of", name,
                      takes_several ? "one or more" : "one");
    }
    if (is_include) {
        return ngx_conf_include(cf, command, conf);
    }
    return result_of(cf, backend_directive,
                     rate_limit::set_parameter<Block>(parameters, block.given, block, *parameter,
                                                      view(words[1])));
}

char *parse_block(ngx_conf_t *cf, Block &block) {
    const ngx_conf_t saved = *cf;
    cf->handler = set_block_line;
    cf->handler_conf = &block;
    char *result = ngx_conf_parse(cf, nullptr);
    *cf = saved;
    return result;
}

} // namespace

char *set_backend(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    auto &main = *static_cast<MainConf *>(conf);
    const std::string_view name = view(words_of(cf)[1]);
    if (!rate_limit::is_name(name)) {
        const bool is_url = name.find("://") != std::string_view::npos ||
                            name.find('@') != std::string_view::npos; // perhaps with a password
        return refuse(cf, backend_directive, "name", is_url ? "***" : name, expected_name);
    }
    if (main.backend(name) != nullptr) {
        return refuse(cf, backend_directive, "name", name, "each backend once");
    }
    Block block{.cf = cf, .backend = main.add_backend(name), .given = {}};
    char *result = parse_block(cf, block);
    return result == NGX_CONF_OK ? complete_backend(cf, block.backend) : result;
}

} // namespace nginx_module
