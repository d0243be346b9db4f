#include "redis_client/intrusive_list.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace redis_client {
namespace {

struct Element {
    char name;
    ListHook<Element> hook;
};

using List = IntrusiveList<Element, &Element::hook>;

/// Forwards; the same backwards is expected.
std::string names(const List &list) {
    std::string forwards;
    std::string backwards;
    for (const Element *one = list.front(); one != nullptr; one = one->hook.next) {
        forwards += one->name;
    }
    for (const Element *one = list.back(); one != nullptr; one = one->hook.previous) {
        backwards += one->name;
    }
    std::ranges::reverse(backwards);
    EXPECT_EQ(forwards, backwards);
    EXPECT_EQ(list.empty(), forwards.empty());
    return forwards;
}

class IntrusiveListTest : public testing::Test {
  protected:
    Element a_{'a', {}}, b_{'b', {}}, c_{'c', {}};
    List list_;
};

TEST_F(IntrusiveListTest, KeepsTheOrderOfAdding) {
    EXPECT_EQ(names(list_), "");
    list_.push_back(a_);
    EXPECT_EQ(names(list_), "a");
    list_.push_back(b_);
    list_.push_back(c_);
    EXPECT_EQ(names(list_), "abc");
}

TEST_F(IntrusiveListTest, InsertsInTheMiddleAtTheFrontAndAtTheEnd) {
    list_.insert_after(nullptr, b_);
    EXPECT_EQ(names(list_), "b");
    list_.insert_after(nullptr, a_);
    EXPECT_EQ(names(list_), "ab");
    list_.insert_after(&a_, c_);
    EXPECT_EQ(names(list_), "acb");
    list_.remove(c_);
    list_.insert_after(&b_, c_);
    EXPECT_EQ(names(list_), "abc");
}

TEST_F(IntrusiveListTest, RemovesFromEverywhere) {
    for (Element *one : {&a_, &b_, &c_}) {
        list_.push_back(*one);
    }
    list_.remove(b_);
    EXPECT_EQ(names(list_), "ac");
    list_.remove(a_);
    EXPECT_EQ(names(list_), "c");
    list_.remove(c_);
    EXPECT_EQ(names(list_), "");
    list_.push_back(b_); // what was removed may be added again
    EXPECT_EQ(names(list_), "b");
}

} // namespace
} // namespace redis_client
