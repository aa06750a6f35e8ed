#include "base/status.h"

#include <gtest/gtest.h>

namespace swarm {
namespace {

Result<int> Half(int x) {
  if (x % 2 != 0) return InvalidArgument("odd");
  return x / 2;
}

Result<int> Quarter(int x) {
  ASSIGN_OR_RETURN(const int half, Half(x));
  return Half(half);
}

TEST(StatusTest, AnErrorCarriesCodeAndMessageAndContext) {
  const Status status = NotFound("no such shard").WithContext("corpus.bin");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.ToString(), "NOT_FOUND: corpus.bin: no such shard");
  EXPECT_EQ(Status().WithContext("x").ToString(), "OK");
}

TEST(StatusTest, AssignOrReturnPassesTheFirstErrorOn) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().message(), "odd");
}

}  // namespace
}  // namespace swarm
