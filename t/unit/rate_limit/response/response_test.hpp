// What an expression makes of a body.
#pragma once

#include "rate_limit/response/body_scanner.hpp"
#include "rate_limit/response/value_expression.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace rate_limit {

/// One variable, as a location has it.
struct ResponseVariable {
    explicit ResponseVariable(std::string_view text) {
        const char *expected = expression.parse(text, paths);
        EXPECT_EQ(expected, nullptr) << text;
    }

    std::string text_of(const SeenNumbers &numbers) const {
        const auto value = expression.value(numbers);
        return value ? std::to_string(*value) : "";
    }

    JsonPaths paths;
    ValueExpression expression;
};

/// Returns the variable's text after that much of a body that came in pieces of these sizes: first
/// one of `first` bytes, then pieces of `rest` bytes.
inline std::string value_in_pieces(const ResponseVariable &variable, BodyFormat format,
                                   std::string_view body, size_t first, size_t rest) {
    BodyScanner scanner(format, variable.paths);
    scanner.scan(body.substr(0, first));
    for (size_t at = first; at < body.size(); at += rest) {
        scanner.scan(body.substr(at, rest));
    }
    return variable.text_of(scanner.numbers());
}

/// Returns the variable's text after the body, which is the same however the body is split into
/// two, and if it comes byte by byte.
inline std::string value_of(std::string_view expression, std::string_view body,
                            BodyFormat format = BodyFormat::text) {
    const ResponseVariable variable(expression);
    const std::string value = value_in_pieces(variable, format, body, body.size(), 1);
    for (size_t first = 0; first < body.size(); ++first) {
        EXPECT_EQ(value_in_pieces(variable, format, body, first, body.size()), value)
            << expression << " after " << body.substr(0, first);
    }
    EXPECT_EQ(value_in_pieces(variable, format, body, 0, 1), value) << expression;
    return value;
}

} // namespace rate_limit
