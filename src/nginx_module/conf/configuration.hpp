// The configuration: directives fill it in, and requests read it.
#pragma once

#include "nginx_module/ngx.hpp"

#include "limiter/configuration.hpp"
#include "nginx_module/conf/context.hpp"
#include "nginx_module/conf/tls_context.hpp"
#include "nginx_module/memory/slab_mutex.hpp"
#include "rate_limit/settings/rule_parameters.hpp"
#include "rate_limit/settings/zone_parameters.hpp"
#include "redis_client/link/backend_settings.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nginx_module {

/// The settings of a `redis_rate_limit_backend`, and what of it is nginx's own.
struct BackendConf : redis_client::BackendSettings {
    using BackendSettings::BackendSettings;

    std::vector<std::string> server_texts; // the servers with their ports, for metrics
    ngx_resolver_t *resolver = nullptr;    // null: nginx resolved the names when it started
    TlsSettings tls_settings;
    std::unique_ptr<TlsContext> tls; // null: connections use no TLS
};

using rate_limit::Phase;
using rate_limit::ShowKeys;

/// The place of a directive in the configuration's files, for messages about it that come only
/// after all directives have been read.
struct Position {
    explicit Position(const ngx_conf_t *cf)
        : file(cf->conf_file->file.name), line(cf->conf_file->line) {}
    ngx_str_t file;
    ngx_uint_t line;
};

struct ZoneConf : limiter::Zone {
    explicit ZoneConf(const ngx_conf_t *cf) : position(cf) {}

    Position position;
    ngx_str_t key_text{};
    const void *key = nullptr; // compiled by the context
    SlabMutex mutex;           // of its shared memory
};

struct RuleConf : limiter::Rule {
    explicit RuleConf(const ngx_conf_t *cf) : position(cf) {}

    Position position;
    // The texts of RuleParameters, compiled by the context. Null: there is none.
    const void *limit = nullptr;
    const void *burst = nullptr;
    const void *cost = nullptr;
    const void *final_cost = nullptr;

    const void *text(limiter::RuleText which) const {
        switch (which) {
        case limiter::RuleText::limit:
            return limit;
        case limiter::RuleText::burst:
            return burst;
        case limiter::RuleText::cost:
            return cost;
        case limiter::RuleText::final_cost:
            break;
        }
        return final_cost;
    }
};

using limiter::RuleList;

/// What a location of http or a server of stream says, which others may inherit.
struct LevelConf {
    RuleList *rules; // its own or inherited; null: no rule was given, empty: `off`
    ngx_uint_t dry_run;
    ngx_uint_t log_level;

    bool has_rules() const { return rules != nullptr && !rules->empty(); }
    bool is_dry_run(const limiter::Rule &rule) const { return dry_run == 1 || rule.dry_run; }
    limiter::Level level() const { return {*rules, dry_run == 1}; }
};

struct MainConf {
    explicit MainConf(const Context &its_context) : context(its_context) {}

    const Context &context;
    std::vector<std::unique_ptr<BackendConf>> backends;
    std::vector<std::unique_ptr<ZoneConf>> zones;
    std::vector<std::unique_ptr<RuleConf>> rules;
    std::vector<std::unique_ptr<RuleList>> rule_lists;
    std::vector<const LevelConf *> levels; // that have rules

    /// Both take a name as the configuration has it, without the context's prefix.
    BackendConf &add_backend(std::string_view name);
    BackendConf *backend(std::string_view name) const;
    ZoneConf *zone(std::string_view name) const;
};

} // namespace nginx_module
