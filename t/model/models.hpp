// Each algorithm as docs/directives.md defines it, in whole numbers of 128 bits.
//
// The models share no formula with the scripts and with verdict.cpp. A model knows one thing:
// whether so many units fit at some time. What remains, and how long to wait for what, is found by
// trying.
#pragma once

#include "rate_limit/rule/rule.hpp"
#include "rate_limit/rule/verdict.hpp"

#include <memory>

namespace model {

__extension__ using Wide = __int128;

class Model {
  public:
    virtual ~Model() = default;

    /// Whether so many units fit at that time, if none are taken before.
    virtual bool fits(const rate_limit::Quota &quota, Wide time, Wide units) const = 0;
    bool fits(const rate_limit::Quota &quota, Wide now) const;

    /// Takes the cost, whether it fits or not.
    void take(const rate_limit::Quota &quota, Wide now);

    /// The key is gone.
    virtual void forget() = 0;

    /// Of a check that was granted if it `fitted`, after take() where it was `charged`.
    virtual rate_limit::Verdict verdict(const rate_limit::Quota &quota, Wide now, bool fitted,
                                        bool charged) const;

  private:
    /// Takes the cost, which is not 0.
    virtual void take_some(const rate_limit::Quota &quota, Wide now) = 0;

    /// A time from which on nothing counts.
    virtual Wide end(const rate_limit::Quota &quota) const = 0;

    /// For which the units just taken are held back.
    virtual Wide delay(const rate_limit::Quota & /*quota*/, Wide /*now*/) const { return 0; }

    Wide wait_for(const rate_limit::Quota &quota, Wide now, Wide units) const;
};

/// Of requests in flight: what they take is taken back by name.
class Concurrency : public Model {
  public:
    virtual void take_permit(const rate_limit::Quota &quota, Wide now, std::string_view permit) = 0;
    virtual void release(std::string_view permit) = 0;
    virtual void renew(const rate_limit::Quota &quota, Wide now, std::string_view permit) = 0;
};

std::unique_ptr<Model> model_of(rate_limit::Algorithm algorithm, bool aligned);
std::unique_ptr<Concurrency> concurrency_model();

} // namespace model
