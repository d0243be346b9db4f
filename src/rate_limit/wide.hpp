// Limits times windows take 75 bits.
#pragma once

namespace rate_limit {

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

} // namespace rate_limit
