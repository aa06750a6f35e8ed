#include "base/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swarm {
namespace {

TEST(VersionTest, HasNumbersAndACommitIfThereIsOne) {
  EXPECT_THAT(Version(),
              testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+( \\([0-9a-f]+(-dirty)?\\))?"));
}

}  // namespace
}  // namespace swarm
