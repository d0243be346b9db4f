#include "step.hpp"

namespace protocol {

namespace {

std::string text_of(Units units) {
    return std::to_string(units) + (units == 1 ? " unit" : " units");
}

std::string name_of(uint8_t host) {
    return host == Fetch::nobody ? "nobody" : std::string("host ") + static_cast<char>('A' + host);
}

} // namespace

std::string to_string(const Step &step) {
    const std::string host = name_of(step.host);
    const std::string units = text_of(step.units);
    switch (step.kind) {
    case Step::Kind::pass:
        return "a tick passes";
    case Step::Kind::grant:
        return "Redis grants a request";
    case Step::Kind::charge:
        return "Redis charges a request that another rule denies: its refund is on its way";
    case Step::Kind::ask:
        return host + " asks for a lease";
    case Step::Kind::decide:
        return "Redis leases " + units + " to " + host + ", usable for " +
               std::to_string(step.usable_for);
    case Step::Kind::give_up:
        return host + " waits no longer for its check";
    case Step::Kind::lose:
        return "the check of " + host + " is lost, or its answer";
    case Step::Kind::receive:
        return host + " has its answer: " + units;
    case Step::Kind::use:
        return host + " grants a request out of its lease";
    case Step::Kind::take:
        return host + " takes a unit of its lease for a request that another rule denies";
    case Step::Kind::give_back:
        return host + " gives that unit back";
    case Step::Kind::drop:
        return host + " loses a unit of its lease";
    case Step::Kind::close:
        return host + " returns " + units;
    case Step::Kind::arrive:
        return "what Redis is told of " + units + " arrives";
    case Step::Kind::lose_return:
        return "what Redis is told of " + units + " is lost";
    case Step::Kind::crash:
        return host + " crashes";
    case Step::Kind::lose_key:
        return "Redis loses the key";
    }
    return {};
}

} // namespace protocol
