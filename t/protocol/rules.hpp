// Redis's side of the protocol: how the scripts decide, in plain code; and beside it what a rule
// promises, counted over the units that clients got.
//
// t/model/lease_rules_test.cpp holds this against the scripts in a real Redis.
#pragma once

#include "world.hpp"

#include <memory>

namespace protocol {

/// A receipt that stands for all those of which a return changes nothing any more.
inline constexpr Time over = -100;

/// What Redis answers: no units if the rule does not grant so many.
struct Leased {
    Units units = 0;
    Time usable_for = 0;
    Time receipt = 0;
};

class Rule {
  public:
    Rule(const Numbers &numbers, Flaw flaw) : numbers_(numbers), flaw_(flaw) {}
    virtual ~Rule() = default;

    /// The script's check and charge of one unit. Returns whether it grants.
    virtual bool charge(Key &key) const = 0;
    /// Names the unit in a return that was charged just now.
    virtual Time receipt(const Key &key) const = 0;

    /// The script's lease, for so long at most: of all these units, or of none. The scripts lease
    /// no more than an eighth of what is left, which no promise depends on.
    virtual Leased lease(Key &key, Units units, Time longest) const = 0;

    /// The script's refund.
    virtual void give_back(Key &key, Units units, Time receipt) const = 0;
    /// Whether a return with this receipt changes nothing, now and later.
    virtual bool is_over(const Key &key, Time receipt) const = 0;

    /// Lets a tick pass.
    virtual void pass(Key &key, Granted &granted) const = 0;

    /// Counts a unit that a client got. Returns whether the rule still holds its promise. `quotas`
    /// is 1, and one more for each time that Redis lost the key.
    virtual bool grant(Granted &granted, const Key &key, int quotas) const = 0;

  protected:
    bool has(Flaw flaw) const { return flaw_ == flaw; }

    const Numbers numbers_;
    const Flaw flaw_;
};

std::unique_ptr<Rule> rule_of(const Numbers &numbers, Flaw flaw);

} // namespace protocol
