#include "rate_limit/tables/process_claim.hpp"

namespace rate_limit {

namespace {

/// The process is in the upper half. The lower one has the milliseconds of the claim's end, which
/// begin anew every 49 days.
uint64_t to_word(pid_t process, ProcessClaim::Time end) {
    return uint64_t{static_cast<uint32_t>(process)} << 32 | static_cast<uint32_t>(end.count());
}

pid_t process_of(uint64_t word) {
    return static_cast<pid_t>(word >> 32);
}

bool counts(uint64_t word, ProcessClaim::Time now) {
    return static_cast<int32_t>(static_cast<uint32_t>(word) - static_cast<uint32_t>(now.count())) >
           0;
}

} // namespace

bool ProcessClaim::take(pid_t process, Time now, const Machine &machine) {
    uint64_t word = word_.load(relaxed);
    const pid_t owner = process_of(word);
    const bool is_free =
        owner == 0 || owner == process || !counts(word, now) || !machine.is_alive(owner);
    return is_free && word_.compare_exchange_strong(word, to_word(process, now + lasts_for));
}

bool ProcessClaim::keep(pid_t process, Time now) {
    uint64_t word = word_.load(relaxed);
    return process_of(word) == process &&
           word_.compare_exchange_strong(word, to_word(process, now + lasts_for));
}

void ProcessClaim::release(pid_t process) {
    uint64_t word = word_.load(relaxed);
    if (process_of(word) == process) {
        word_.compare_exchange_strong(word, 0); // another process may have taken it just now
    }
}

} // namespace rate_limit
