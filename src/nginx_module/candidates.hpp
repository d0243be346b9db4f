// Which rules of its location apply to a request, and with what key and numbers.
#pragma once

#include "ngx.hpp"

#include "conf.hpp"
#include "request.hpp"

#include <array>
#include <span>
#include <string_view>

namespace nginx_module {

struct Candidate {
    const RuleConf *rule;
    bool dry_run;
    bool is_invalid; // a variable is no number, and the zone's on_error is closed
    std::string_view key;
    rate_limit::Quota quota;

    /// Whether it takes Redis to decide.
    bool is_open() const { return !is_invalid && !rate_limit::verdict_without_counter(quota); }
    const BackendConf *backend() const { return rule->zone->backend; }
};

class Candidates {
  public:
    /// The rules of a phase that were not applied to the request yet. NGX_OK or NGX_ERROR.
    ngx_int_t collect(ngx_http_request_t *r, Phase phase, const RequestState *state);

    /// Those that it does not take Redis to decide.
    std::span<const Candidate> decided() const { return {candidates_.data(), decided_}; }
    /// Those of one backend stand together.
    std::span<const Candidate> open() const {
        return {candidates_.data() + decided_, count_ - decided_};
    }

  private:
    void take_last();

    std::array<Candidate, redis_client::most_rules> candidates_;
    size_t count_ = 0;
    size_t decided_ = 0;
};

} // namespace nginx_module
