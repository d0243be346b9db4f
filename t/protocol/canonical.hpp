// One form for all states that go on alike, so that they are explored once.
#pragma once

#include "rules.hpp"
#include "setting.hpp"
#include "world.hpp"

namespace protocol {

/// Changes nothing that matters to what may come next.
void make_canonical(World &world, const Setting &setting, const Rule &rule);

} // namespace protocol
