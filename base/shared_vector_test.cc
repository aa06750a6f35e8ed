#include "base/shared_vector.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace swarm {
namespace {

TEST(SharedVectorTest, CopiesShareTheirElementsUntilOneIsChanged) {
  SharedVector<std::string> first{"a", "b"};
  SharedVector<std::string> second = first;
  EXPECT_EQ(&first[0], &second[0]);
  second.Own().emplace_back("c");
  EXPECT_EQ(first.elements(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(second.elements(), (std::vector<std::string>{"a", "b", "c"}));
}

TEST(SharedVectorTest, TheOnlyOwnerChangesItsElementsInPlace) {
  SharedVector<int> numbers{1, 2};
  const int* const place = &numbers[0];
  numbers.Own()[0] = 3;
  EXPECT_EQ(&numbers[0], place);
  EXPECT_EQ(numbers[0], 3);
}

TEST(SharedVectorTest, IsEqualByItsElements) {
  EXPECT_EQ(SharedVector<int>(), SharedVector<int>({}));
  EXPECT_EQ((SharedVector<int>{1, 2}), (SharedVector<int>{1, 2}));
  EXPECT_NE((SharedVector<int>{1, 2}), (SharedVector<int>{2, 1}));
}

}  // namespace
}  // namespace swarm
