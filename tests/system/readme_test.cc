// The commands of the README do what it says, in the order in which they stand there.
#include "tests/system/system_test.h"

namespace swarm::tests {
namespace {

using testing::HasSubstr;

/// The fenced blocks of `language` in the section of `text` with this title.
std::vector<std::string> Blocks(const std::string& text, const std::string& section,
                                const std::string& language) {
  std::vector<std::string> blocks;
  std::istringstream in(text);
  bool in_section = false, in_block = false, wanted = false;
  for (std::string line; std::getline(in, line);) {
    if (!in_block && line.starts_with("## ")) in_section = line == "## " + section;
    if (line.starts_with("```")) {
      in_block = !in_block;
      wanted = in_block && in_section && line == "```" + language;
      if (wanted) blocks.emplace_back();
    } else if (wanted) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

class SystemReadmeTest : public SystemTest {
 protected:
  /// Runs a line of shell below the test's folder; its output goes to the file `name`.
  int Shell(const std::string& line, const std::string& name) {
    const std::string command =
        "cd '" + folder_.path().string() + "' && { " + line + " ; } >" + name + " 2>&1 </dev/null";
    return std::system(command.c_str());
  }
};

TEST_F(SystemReadmeTest, TheSmallestJobAndItsCommandsWork) {
  const auto readme = ctl::ReadFile(std::string(SWARM_SOURCE_DIR) + "/README.md");
  ASSERT_TRUE(readme.ok());
  const auto jobs = Blocks(*readme, "The smallest job", "yaml");
  const auto commands = Blocks(*readme, "The smallest job", "sh");
  ASSERT_EQ(jobs.size(), 1u);
  ASSERT_EQ(commands.size(), 1u);
  ASSERT_TRUE(ctl::WriteFile(Path("smallest.yaml"), jobs[0]).ok());
  ASSERT_TRUE(ctl::WriteFile(Path("README.md"), *readme).ok());
  std::filesystem::create_directories(Path("build/release"));
  std::filesystem::create_symlink(SWARM_BIN_DIR, Path("build/release/bin"));

  std::istringstream lines(commands[0]);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_EQ(Shell(line, "log." + std::to_string(count)), 0)
        << line << "\n"
        << Content("log." + std::to_string(count));
  }
  ASSERT_EQ(count, 4);
  EXPECT_THAT(Content("log.0"), HasSubstr("Succeeded after"));
  EXPECT_EQ(Losses(Path("out/smallest")).size(), 20u);
  EXPECT_THAT(Content("log.1"), testing::ContainsRegex("[0-9]\\.[0-9]+"));
  EXPECT_THAT(Content("log.2"), HasSubstr("SwarmJob "));
  EXPECT_TRUE(std::filesystem::exists(Path("out/smallest-hf/config.json")));
  EXPECT_TRUE(std::filesystem::exists(Path("out/smallest-hf/model.safetensors")));
}

}  // namespace
}  // namespace swarm::tests
