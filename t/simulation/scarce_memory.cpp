#include "simulation/scarce_memory.hpp"

#include "limiter/limited_request.hpp"

#include <new>
#include <utility>

namespace simulation {

namespace {

ScarceMemory *living = nullptr;

} // namespace

ScarceMemory::ScarceMemory(Chance chance, uint64_t runs_out_one_in, uint64_t &count)
    : chance_(chance), runs_out_one_in_(runs_out_one_in), count_(count) {
    living = this;
}

ScarceMemory::~ScarceMemory() {
    living = nullptr;
}

/// A request's own memory is always there: how often it comes from limiter::SpareMemory depends on
/// the sanitizer, and a seed's run does not.
bool ScarceMemory::runs_out(size_t size) {
    if (living == nullptr || living->runs_out_one_in_ == 0 ||
        size == sizeof(limiter::LimitedRequest)) {
        return false;
    }
    const bool runs_out = living->chance_.one_in(living->runs_out_one_in_);
    living->count_ += runs_out ? 1 : 0;
    return runs_out;
}

} // namespace simulation

void *operator new(size_t size, const std::nothrow_t & /*tag*/) noexcept {
    return simulation::ScarceMemory::runs_out(size) ? nullptr : ::operator new(size);
}
