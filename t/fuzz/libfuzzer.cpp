// libFuzzer's way into one of the targets.

#include "targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz::FUZZ_TARGET(fuzz::Input({reinterpret_cast<const char *>(data), size}));
    return 0;
}
