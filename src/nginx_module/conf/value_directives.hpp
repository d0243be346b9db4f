// Directives that set one value of a level, such as a location: a row of a table is all that there
// is of one, but for the value itself.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/conf/parameters.hpp"
#include "nginx_module/util.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

namespace nginx_module {

/// Reads the values of a directive. Returns NGX_CONF_OK, or NGX_CONF_ERROR if they are refused; the
/// log says why.
using ReadValues = char *(*)(ngx_conf_t *cf, std::span<const ngx_str_t> values, ngx_uint_t &value);

template <typename Conf>
struct ValueDirective {
    std::string_view name; // a literal
    ngx_uint_t Conf::*value;
    ngx_uint_t by_default;
    ngx_uint_t arguments; // how many, as nginx counts them
    ReadValues read;      // null: it is `on` or `off`
};

struct NamedChoice {
    std::string_view name;
    ngx_uint_t choice;
};

/// Returns the choice of that name, or nothing if there is none.
inline std::optional<ngx_uint_t> choose(std::span<const NamedChoice> choices,
                                        std::string_view name) {
    const auto found = std::ranges::find(choices, name, &NamedChoice::name);
    return found != choices.end() ? std::optional(found->choice) : std::nullopt;
}

/// Reads `redis_rate_limit_log_level`.
char *read_log_level(ngx_conf_t *cf, std::span<const ngx_str_t> values, ngx_uint_t &log_level);

/// nginx's own function for flags is given an ngx_flag_t, which has the size of an ngx_uint_t, and
/// says by the same bits that there is no value yet.
char *set_flag(ngx_conf_t *cf, ngx_command_t *command, ngx_uint_t &flag);

/// Refuses a second value on a level.
char *refuse_second(ngx_conf_t *cf, std::string_view directive, std::string_view value);

template <typename Conf>
char *set_value(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept {
    const auto &directive = *static_cast<const ValueDirective<Conf> *>(command->post);
    ngx_uint_t &value = static_cast<Conf *>(conf)->*directive.value;
    if (directive.read == nullptr) {
        return set_flag(cf, command, value);
    }
    const std::span<const ngx_str_t> values = words_of(cf).subspan(1);
    return value == NGX_CONF_UNSET_UINT ? directive.read(cf, values, value)
                                        : refuse_second(cf, directive.name, view(values[0]));
}

/// Returns what nginx needs to know of the directives, which outlive it. They may stand at
/// `places`; `offset` is of the kind of configuration that has their values.
template <typename Conf, size_t n>
std::array<ngx_command_t, n> commands_of(const ValueDirective<Conf> (&directives)[n],
                                         ngx_uint_t places, ngx_uint_t offset) {
    std::array<ngx_command_t, n> commands{};
    std::ranges::transform(directives, commands.begin(), [&](const auto &directive) {
        return ngx_command_t{.name = to_ngx(directive.name),
                             .type = places | directive.arguments,
                             .set = set_value<Conf>,
                             .conf = offset,
                             .offset = 0,
                             .post = const_cast<ValueDirective<Conf> *>(&directive)};
    });
    return commands;
}

/// Makes a level's configuration in the pool, in which no directive was given yet. Returns null if
/// memory ran out.
template <typename Conf>
Conf *make_level(ngx_pool_t *pool, std::span<const ValueDirective<Conf>> directives) {
    auto *conf = pool_array<Conf>(pool, 1);
    if (conf == nullptr) {
        return nullptr;
    }
    *conf = Conf{};
    for (const auto &directive : directives) {
        conf->*directive.value = NGX_CONF_UNSET_UINT;
    }
    return conf;
}

/// Gives the inner level the rules and values of the outer one that it has not itself.
template <typename Conf>
void merge_level(const Conf &from, Conf &to, std::span<const ValueDirective<Conf>> directives) {
    if (to.rules == nullptr) {
        to.rules = from.rules;
    }
    for (const auto &directive : directives) {
        ngx_conf_merge_uint_value(to.*directive.value, from.*directive.value, directive.by_default);
    }
}

} // namespace nginx_module
