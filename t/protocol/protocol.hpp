// The protocol: what hosts, the network, Redis and time may do next, in any order.
//
// Each step is one that nothing can interrupt. Where it depends on later events what a step comes
// to, each of the outcomes is a step of its own:
//
// - An ordinary check is one step. Its client counts as granted when Redis charges, and no clock of
//   a host matters. If another rule is going to deny the request, the refund is on its way at once,
//   and takes any time.
// - A check that leases, too, is an ordinary check and then one that leases only, in the same tick.
// - A unit is taken from a lease by one exchange: for a request that is granted, or for one that
//   another rule denies, or it is lost, with its worker or because the clock, read afterwards, says
//   that the lease has ended.
//
// That a key expires is no step. It does when nothing of its state counts any more, and returns of
// an earlier key change nothing: see RefundTest.OfAKeyThatHasGoneMeanwhileChangesNothing.
//
// Messages take any time, overtake each other, and get lost. A host may crash at any time, and is
// there again at once, with an empty book. Its clock is the slowest one that the design allows: a
// faster one ends a lease earlier, and a host need not use a lease up to its end.
#pragma once

#include "rules.hpp"
#include "setting.hpp"
#include "step.hpp"
#include "world.hpp"

#include <memory>
#include <vector>

namespace protocol {

struct Successor {
    Step step;
    World world; // after the step
    bool keeps_promise;
};

class Protocol {
  public:
    explicit Protocol(const Setting &setting)
        : setting_(setting), rule_(rule_of(setting.numbers, setting.flaw)) {}

    /// Adds all that may come next.
    void add_successors(const World &world, std::vector<Successor> &successors) const;

  private:
    Setting setting_;
    std::unique_ptr<Rule> rule_;
};

} // namespace protocol
