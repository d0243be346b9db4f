// What a variable takes from a response: alternatives with `|` between them, each a sum of terms
// with `+`, such as
// usage.total_tokens|max(usage.input_tokens,start.input_tokens)+usage.output_tokens.
#pragma once

#include "rate_limit/response/json_path.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace rate_limit {

class ValueExpression {
  public:
    /// Reads the expression, whose paths it adds to `paths`. Returns null, or what was expected
    /// instead of the text.
    const char *parse(std::string_view text, JsonPaths &paths);

    /// Returns the sum of the first alternative of which every term was seen, or nothing if there
    /// is none.
    std::optional<uint64_t> value(const SeenNumbers &numbers) const;

  private:
    /// A path, or those of a maximum, which was seen if one of them was.
    using Term = PathSet;
    using Sum = std::vector<Term>;

    std::vector<Sum> alternatives_;
};

} // namespace rate_limit
