#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/parse.h"

namespace swarm::api {
namespace {

TEST(ExamplesTest, EveryExampleIsAValidManifest) {
  int examples = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(SWARM_SOURCE_DIR) + "/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const Checked<SwarmJob> job = ParseYaml(text.str());
    EXPECT_TRUE(job.ok()) << entry.path() << "\n" << ToString(job.errors());
    ++examples;
  }
  EXPECT_GT(examples, 0);
}

}  // namespace
}  // namespace swarm::api
