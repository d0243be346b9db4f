// Files of the source tree that become part of the program: the assembler reads them, so that they
// stay files of their own and need no generator. RATE_LIMIT_DIR, where the tree is, comes from
// config.make or CMakeLists.txt.
#pragma once

#include <cstddef>
#include <string_view>

#define CONTENTS(file) ".incbin \"" RATE_LIMIT_DIR "/" file "\"\n"

#define EMBEDDED_LABEL(name) ".globl " name "\n.hidden " name "\n" name ":\n"

#define EMBED(symbol, file) EMBED_ALL(symbol, CONTENTS(file))

// Several, one after the other: CONTENTS(...) CONTENTS(...)
//
// The two labels are global in the assembler and hidden in the program. A declaration that is not
// hidden is reached through the global offset table in position-independent code, and there the
// assembler for arm64 puts the beginning of the section in the place of a local label: all files
// would be empty.
// NOLINTBEGIN(bugprone-macro-parentheses): a name that is declared takes none.
#define EMBED_ALL(symbol, contents)                                                                \
    asm(".pushsection .rodata\n" EMBEDDED_LABEL(#symbol)                                           \
            contents EMBEDDED_LABEL(#symbol "_end") ".byte 0\n"                                    \
                                                    ".popsection\n");                              \
    extern "C" __attribute__((visibility("hidden"))) const char symbol[];                          \
    extern "C" __attribute__((visibility("hidden"))) const char symbol##_end[]
// NOLINTEND(bugprone-macro-parentheses)

namespace rate_limit {

inline std::string_view embedded(const char *begin, const char *end) {
    return {begin, static_cast<size_t>(end - begin)};
}

} // namespace rate_limit
