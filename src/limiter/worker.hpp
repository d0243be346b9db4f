// What the requests of one worker share. One process may have many workers.
#pragma once

#include "limiter/held_leases.hpp"
#include "limiter/spare_memory.hpp"
#include "limiter/worker_log.hpp"
#include "redis_client/io/world.hpp"
#include "redis_client/link/backends.hpp"

namespace limiter {

struct Worker {
    /// The backends and the log outlive the worker.
    Worker(redis_client::World &its_world, redis_client::Backends &its_backends,
           const WorkerLog &its_log)
        : world(its_world),
          backends(its_backends),
          log(its_log),
          leases(its_world, its_backends, its_log) {}

    redis_client::World &world;
    redis_client::Backends &backends;
    const WorkerLog &log;
    HeldLeases leases;
    SpareMemory requests; // for a LimitedRequest each
};

} // namespace limiter
