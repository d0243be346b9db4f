// Embeds files of the source tree in the program. The assembler reads them, so that no generator is
// needed. RATE_LIMIT_DIR is the directory of the tree, and comes from config.make or
// CMakeLists.txt.
#pragma once

#include <cstddef>
#include <string_view>

#define CONTENTS(file) ".incbin \"" RATE_LIMIT_DIR "/" file "\"\n"

#define EMBEDDED_LABEL(name) ".globl " name "\n.hidden " name "\n" name ":\n"

#define EMBED(symbol, file) EMBED_ALL(symbol, CONTENTS(file))

// Embeds several files, one after the other, which are written CONTENTS(...) CONTENTS(...).
//
// The two labels are global in the assembler and hidden in the program. Position-independent code
// reaches a declaration that is not hidden through the global offset table. There the assembler for
// arm64 replaces a local label by the beginning of the section, so that all files would be empty.
// NOLINTBEGIN(bugprone-macro-parentheses): a name in a declaration takes no parentheses.
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
