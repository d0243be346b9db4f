// What a variable takes from a response: alternatives with `|` between them, each a sum of paths
// with `+`, such as usage.total_tokens|usage.input_tokens+usage.output_tokens.
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

    /// Returns the sum of the first alternative of which every path was seen, or nothing if there
    /// is none.
    std::optional<uint64_t> value(const SeenNumbers &numbers) const;

  private:
    using Sum = std::vector<size_t>; // the numbers of its paths

    std::vector<Sum> alternatives_;
};

} // namespace rate_limit
