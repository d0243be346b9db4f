// Answers in the shapes of common model APIs, which docs/token-budgets.md has recipes for.

#include "unit/rate_limit/response/response_test.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace rate_limit {
namespace {

struct Answer {
    const char *file; // in t/answers
    const char *expression;
    BodyFormat format;
    std::vector<std::string> values; // that the variable has, one after another, while it comes
};

constexpr const char *chat = "usage.total_tokens";
constexpr const char *messages =
    "max(usage.input_tokens,message.usage.input_tokens)+usage.output_tokens";
constexpr const char *responses = "usage.total_tokens|response.usage.total_tokens";
constexpr const char *generate = "usageMetadata.totalTokenCount|[*].usageMetadata.totalTokenCount";
constexpr const char *local = "prompt_eval_count+eval_count|eval_count|prompt_eval_count";
constexpr const char *groq = "max(usage.total_tokens,x_groq.usage.total_tokens)";
constexpr const char *cohere = "max(usage.tokens.input_tokens,delta.usage.tokens.input_tokens)"
                               "+max(usage.tokens.output_tokens,delta.usage.tokens.output_tokens)";
constexpr const char *workers = "max(usage.total_tokens,result.usage.total_tokens)";

const Answer answers[] = {
    {"chat.json", chat, BodyFormat::text, {"", "42"}},
    {"chat.sse", chat, BodyFormat::events, {"", "21"}},
    {"chat_without_usage.sse", chat, BodyFormat::events, {""}},
    {"messages.json", messages, BodyFormat::text, {"", "40"}},
    {"messages.sse", messages, BodyFormat::events, {"", "40"}},
    // The input tokens come again before the output tokens of the same event do, larger or as 0.
    {"messages_again.sse", messages, BodyFormat::events, {"", "35", "1035", "1080"}},
    {"responses.json", responses, BodyFormat::text, {"", "123"}},
    {"responses.sse", responses, BodyFormat::events, {"", "48"}},
    {"generate.json", generate, BodyFormat::text, {"", "8", "34"}},
    {"generate.sse", generate, BodyFormat::events, {"", "8", "34"}},
    {"messages_zero.sse", messages, BodyFormat::events, {"", "40"}},
    {"local_cached.ndjson", local, BodyFormat::lines, {"", "282"}},
    {"local_embed.json", local, BodyFormat::text, {"", "8"}},
    {"groq.json", groq, BodyFormat::text, {"", "68"}},
    {"groq.sse", groq, BodyFormat::events, {"", "57"}},
    {"cohere.json", cohere, BodyFormat::text, {"", "90"}},
    {"cohere_floats.json", cohere, BodyFormat::text, {"", "90"}},
    {"cohere.sse", cohere, BodyFormat::events, {"", "76"}},
    {"workers.json", workers, BodyFormat::text, {"", "37"}},
    // The last event tells less than the one before it.
    {"workers.sse", workers, BodyFormat::events, {"", "38"}},
    {"local.ndjson", local, BodyFormat::lines, {"", "26", "308"}},
};

class Answers : public testing::TestWithParam<Answer> {
  protected:
    static std::string body() {
        std::ifstream file(std::string(ANSWERS_DIR "/") + GetParam().file, std::ios::binary);
        std::string bytes{std::istreambuf_iterator<char>(file), {}};
        EXPECT_FALSE(bytes.empty()) << GetParam().file;
        return bytes;
    }
};

TEST_P(Answers, HaveTheirValueHoweverTheyAreSplit) {
    EXPECT_EQ(value_of(GetParam().expression, body(), GetParam().format), GetParam().values.back());
}

TEST_P(Answers, HaveNoOtherValueBeforeTheirEnd) {
    const ResponseVariable variable(GetParam().expression);
    const std::string whole = body();
    BodyScanner scanner(GetParam().format, variable.paths);
    std::vector<std::string> values{""};
    for (size_t size = 1; size <= whole.size(); ++size) {
        scanner.scan(whole.substr(size - 1, 1));
        const std::string value = variable.text_of(scanner.numbers());
        ASSERT_EQ(value_in_pieces(variable, GetParam().format, whole.substr(0, size), size, 1),
                  value)
            << "after " << size << " bytes";
        if (value != values.back()) {
            values.push_back(value);
        }
    }
    EXPECT_EQ(values, GetParam().values);
}

TEST_P(Answers, TellNothingThatIsIgnored) {
    const ResponseVariable variable(GetParam().expression);
    BodyScanner scanner(GetParam().format, variable.paths);
    scanner.scan(body());
    EXPECT_EQ(scanner.take_ignored(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Each, Answers, testing::ValuesIn(answers), [](const auto &info) {
    std::string name = info.param.file;
    std::replace(name.begin(), name.end(), '.', '_');
    return name;
});

} // namespace
} // namespace rate_limit
