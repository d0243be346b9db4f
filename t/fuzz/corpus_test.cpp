// The inputs that are kept, without libFuzzer. Each in a process of its own: what a target finds
// ends it.

#include "targets.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <unistd.h>

namespace fuzz {
namespace {

class FuzzCorpusTest : public testing::TestWithParam<Target> {};

TEST_P(FuzzCorpusTest, HoldsNoInputThatFindsSomething) {
    const std::filesystem::path corpus = FUZZ_CORPUS_DIR;
    size_t inputs = 0;
    for (const auto &entry : std::filesystem::directory_iterator(corpus / GetParam().name)) {
        std::ifstream file(entry.path(), std::ios::binary);
        const std::string bytes{std::istreambuf_iterator<char>(file), {}};
        ASSERT_FALSE(bytes.empty()) << entry.path();
        const auto run = [&] {
            GetParam().run(Input(bytes));
            _exit(0);
        };
        EXPECT_EXIT(run(), testing::ExitedWithCode(0), "") << entry.path();
        ++inputs;
    }
    EXPECT_GT(inputs, 0u);
}

INSTANTIATE_TEST_SUITE_P(Each, FuzzCorpusTest, testing::ValuesIn(targets),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace fuzz
