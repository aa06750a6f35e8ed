#include "base/parallel.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace swarm {
namespace {

TEST(ParallelTest, EachIsCalledOnceOnAnyNumberOfThreads) {
  for (const int threads : {0, 1, 3, 100}) {
    for (const std::size_t count : {0, 1, 2, 50}) {
      std::vector<int> calls(count);
      ForEachOn(threads, count, [&](std::size_t i) { ++calls[i]; });
      EXPECT_EQ(calls, std::vector<int>(count, 1)) << threads << " threads, " << count;
    }
  }
}

}  // namespace
}  // namespace swarm
