// The commands that README and docs show do what these pages say, in the order in which they stand
// there.
#include <filesystem>

#include "tests/system/system_test.h"

namespace swarm::tests {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

/// A section of a page whose commands a test below plays.
struct Section {
  std::string page;
  std::string title;
  bool operator==(const Section&) const = default;
};
const Section kSmallestJob = {"README.md", "The smallest job"};
const Section kGenerate = {"docs/trained_models.md", "Generate"};
const Section kEvaluate = {"docs/trained_models.md", "Evaluate"};
const Section kExport = {"docs/trained_models.md", "Export"};
const Section kChaos = {"docs/chaos.md", "Try it"};
const Section kChaosScripts = {"docs/chaos.md", "Scripts"};
const Section kReport = {"docs/report.md", "Try it"};
const Section kReplay = {"docs/numbers.md", "Replayed traces"};
const Section kFleet = {"docs/fleet.md", "Try it"};
const Section kPlanJob = {"docs/planner.md", "The job"};
const Section kPlanFleet = {"docs/planner.md", "The fleet"};
const Section kPlan = {"docs/planner.md", "Try it"};
const Section kTutorialText = {"docs/tutorial.md", "Get a text"};
const Section kTutorialJob = {"docs/tutorial.md", "Describe the job"};
const Section kTutorialTrain = {"docs/tutorial.md", "Train"};
const Section kTutorialLook = {"docs/tutorial.md", "Look at the run"};
const Section kTutorialWrite = {"docs/tutorial.md", "Let it write"};
const Section kTutorialElsewhere = {"docs/tutorial.md", "Take it elsewhere"};

/// A fenced block of a page.
struct Block {
  std::string section;
  std::string language;
  std::string text;
};

std::vector<Block> ReadBlocks(const std::string& text) {
  std::vector<Block> blocks;
  std::istringstream in(text);
  std::string section;
  bool in_block = false;
  for (std::string line; std::getline(in, line);) {
    if (!in_block && line.starts_with("## ")) section = line.substr(3);
    if (line.starts_with("```")) {
      in_block = !in_block;
      if (in_block) blocks.push_back({section, line.substr(3), ""});
    } else if (in_block) {
      blocks.back().text += line + "\n";
    }
  }
  return blocks;
}

/// The commands of a block of shell: its lines, with those that a backslash continues as one.
std::vector<std::string> Commands(const std::string& block) {
  std::vector<std::string> commands;
  std::istringstream in(block);
  bool continued = false;
  for (std::string line; std::getline(in, line);) {
    if (!continued) commands.emplace_back();
    continued = line.ends_with('\\');
    if (continued) line.back() = ' ';
    commands.back() += line;
  }
  return commands;
}

class SystemReadmeTest : public SystemTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteFile(Path("README.md"), Page("README.md")).ok());
    std::filesystem::create_directories(Path("build/release"));
    std::filesystem::create_symlink(SWARM_BIN_DIR, Path("build/release/bin"));
  }

  static std::string Page(const std::string& name) {
    const auto text = ReadFile(std::string(SWARM_SOURCE_DIR) + "/" + name);
    EXPECT_TRUE(text.ok()) << text.status().ToString();
    return text.ok() ? *text : "";
  }

  /// The one block of `language` in a section.
  static std::string OnlyBlock(const Section& section, const std::string& language) {
    std::vector<std::string> found;
    for (const Block& block : ReadBlocks(Page(section.page))) {
      if (block.section == section.title && block.language == language) found.push_back(block.text);
    }
    EXPECT_EQ(found.size(), 1u) << section.page << ", " << section.title << ": " << language;
    return found.empty() ? "" : found[0];
  }

  void WriteSmallestJob() {
    ASSERT_TRUE(WriteFile(Path("smallest.yaml"), OnlyBlock(kSmallestJob, "yaml")).ok());
  }

  /// Runs a section's commands below the test's folder, each of which must succeed. Returns what
  /// each printed.
  std::vector<std::string> Play(const Section& section) {
    std::vector<std::string> outputs;
    for (const std::string& command : Commands(OnlyBlock(section, "sh"))) {
      outputs.push_back(PlayCommand(command));
    }
    return outputs;
  }

  /// The same for one command.
  std::string PlayCommand(const std::string& command) {
    const std::string shell =
        "cd '" + folder_.path().string() + "' && { " + command + " ; } >log 2>&1 </dev/null";
    EXPECT_EQ(std::system(shell.c_str()), 0) << command << "\n" << Content("log");
    return Content("log");
  }
};

TEST_F(SystemReadmeTest, TheSmallestJobAndItsCommandsWork) {
  WriteSmallestJob();
  const auto outputs = Play(kSmallestJob);
  ASSERT_EQ(outputs.size(), 4u);
  EXPECT_THAT(outputs[0], HasSubstr("Succeeded after"));
  EXPECT_EQ(Losses(Path("out/smallest")).size(), 20u);
  EXPECT_THAT(outputs[1], ContainsRegex("[0-9]\\.[0-9]+"));
  EXPECT_THAT(outputs[2], HasSubstr("SwarmJob "));
  EXPECT_TRUE(std::filesystem::exists(Path("out/smallest-hf/config.json")));
  EXPECT_TRUE(std::filesystem::exists(Path("out/smallest-hf/model.safetensors")));

  EXPECT_THAT(Play(kGenerate).front(), HasSubstr("SwarmJob "));
  EXPECT_THAT(Play(kEvaluate).front(), HasSubstr("bits per byte"));
  EXPECT_THAT(Play(kExport).front(), HasSubstr("Wrote out/smallest-bf16"));
}

TEST_F(SystemReadmeTest, TheTutorialLeadsToATrainedModelElsewhere) {
  ASSERT_TRUE(WriteFile(Path("tutorial.yaml"), OnlyBlock(kTutorialJob, "yaml")).ok());
  ASSERT_EQ(Play(kTutorialText).size(), 4u);

  const auto trained = Play(kTutorialTrain);
  ASSERT_EQ(trained.size(), 2u);
  EXPECT_THAT(trained[0], HasSubstr("tutorial is valid: 300 steps"));
  EXPECT_THAT(trained[0], HasSubstr("869,504 parameters"));
  EXPECT_THAT(trained[1], HasSubstr("worker-0 was ended by signal 9"));
  EXPECT_THAT(trained[1], HasSubstr("Succeeded after"));
  EXPECT_THAT(trained[1], HasSubstr("workers lost: 1"));
  const auto losses = Losses(Path("out/tutorial"));
  ASSERT_EQ(losses.size(), 300u);
  EXPECT_NEAR(losses.front(), 5.6, 0.1);
  EXPECT_LT(losses.back(), 2);

  const auto seen = Play(kTutorialLook);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_THAT(*ReadFile(Path("out/tutorial/report.html")), HasSubstr("The audit passed."));
  EXPECT_THAT(seen[1], HasSubstr("bits per byte"));
  EXPECT_THAT(Play(kTutorialWrite).front(), HasSubstr("In the beginning"));

  const auto exported = Play(kTutorialElsewhere);
  ASSERT_EQ(exported.size(), 2u);
  EXPECT_TRUE(std::filesystem::exists(Path("out/tutorial-hf/config.json")));
  EXPECT_TRUE(std::filesystem::exists(Path("out/tutorial-hf/model.safetensors")));
  EXPECT_EQ(exported[1], PlayCommand("build/release/bin/swarmctl generate --from out/tutorial "
                                     "--prompt 'In the beginning' --tokens 40 --temperature 0"));
}

TEST_F(SystemReadmeTest, FaultsOnPurposeDoNotChangeTheLosses) {
  WriteSmallestJob();
  ASSERT_EQ(Play(kChaos).size(), 2u);
  const auto disturbed = Losses(Path("out/chaos"));
  EXPECT_EQ(disturbed.size(), 400u);
  EXPECT_EQ(disturbed, Losses(Path("out/undisturbed")));
  std::vector<std::string> faults;
  for (const auto& fault : ReadLines(Path("out/chaos/chaos.jsonl"))) {
    EXPECT_FALSE(fault.contains("error")) << fault.dump();
    faults.push_back(fault.at("text"));
  }
  EXPECT_THAT(faults, testing::ElementsAre(testing::StartsWith("kill worker-"), "kill trainer"));

  const auto reports = Play(kReport);
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_THAT(*ReadFile(Path("out/chaos/report.html")), HasSubstr("The audit passed."));
  EXPECT_THAT(*ReadFile(Path("out/compared.html")), HasSubstr("the same bits in 400 steps"));
  EXPECT_THAT(reports[2], HasSubstr("Injected: kill trainer"));
}

TEST_F(SystemReadmeTest, TheScriptsOfFaultsAreUnderstood) {
  const auto lines = ctl::ParseChaos(OnlyBlock(kChaosScripts, "text"));
  ASSERT_TRUE(lines.ok()) << lines.status().ToString();
  EXPECT_EQ(lines->size(), 11u);
}

TEST_F(SystemReadmeTest, TheTraceIsReplayed) {
  ASSERT_TRUE(WriteFile(Path("fleet.csv"), OnlyBlock(kReplay, "text")).ok());
  const auto outputs = Play(kReplay);
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_THAT(outputs[0], HasSubstr("6 workers at first"));
  const auto report = nlohmann::json::parse(outputs[1]);
  EXPECT_EQ(report.at("policy"), "Moves");
  EXPECT_NEAR(report.at("efficiency").get<double>(), 0.992, 0.0005);
  EXPECT_NEAR(report.at("policies").at("None").at("efficiency").get<double>(), 0.571, 0.0005);
}

TEST_F(SystemReadmeTest, TheFleetIsSimulated) {
  ASSERT_TRUE(WriteFile(Path("fleet.yaml"), OnlyBlock(kFleet, "yaml")).ok());
  const auto outputs = Play(kFleet);
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_THAT(outputs[0], HasSubstr("\ngoodput  "));
  EXPECT_TRUE(std::filesystem::exists(Path("fleet.svg")));
  EXPECT_GT(ReadLines(Path("events.jsonl")).size(), 20u);
  const auto report = nlohmann::json::parse(outputs[1]);
  EXPECT_GT(report.at("goodput"), 0.5);
  EXPECT_GT(report.at("recoveries").at("count"), 0);
}

TEST_F(SystemReadmeTest, TheJobIsPlanned) {
  ASSERT_TRUE(WriteFile(Path("job.yaml"), OnlyBlock(kPlanJob, "yaml")).ok());
  ASSERT_TRUE(WriteFile(Path("fleet.yaml"), OnlyBlock(kPlanFleet, "yaml")).ok());
  const auto outputs = Play(kPlan);
  ASSERT_EQ(outputs.size(), 7u);
  EXPECT_THAT(outputs[0], HasSubstr("\nbound by  "));
  EXPECT_THAT(outputs[0], HasSubstr("would win with: "));
  EXPECT_THAT(outputs[1], HasSubstr("tokens a dollar"));
  EXPECT_GT(nlohmann::json::parse(outputs[2]).at("plans").size(), 1);
  EXPECT_THAT(outputs[3], HasSubstr("llama-350m is valid"));
  EXPECT_THAT(*ReadFile(Path("this-machine.yaml")), HasSubstr("teraflops: "));
  EXPECT_THAT(outputs[5], HasSubstr("\nbound by  "));
  EXPECT_THAT(outputs[6], HasSubstr("\ncurves that cross:\n  from "));
  EXPECT_THAT(*ReadFile(Path("plan_links.svg")), HasSubstr(">Delayed pipeline</text>"));
}

TEST_F(SystemReadmeTest, NoCommandOfThePagesIsLeftOut) {
  std::vector<std::string> pages = {"README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(SWARM_SOURCE_DIR "/docs")) {
    if (entry.path().extension() == ".md") {
      pages.push_back("docs/" + entry.path().filename().string());
    }
  }
  const std::vector<Section> played = {
      kSmallestJob,      kGenerate, kEvaluate, kExport,        kChaos,        kReport,
      kReplay,           kFleet,    kPlan,     kTutorialTrain, kTutorialLook, kTutorialWrite,
      kTutorialElsewhere};
  for (const std::string& page : pages) {
    for (const Block& block : ReadBlocks(Page(page))) {
      if (block.language != "sh" || block.text.find("build/release/bin/") == std::string::npos) {
        continue;
      }
      EXPECT_THAT(played, testing::Contains(Section{page, block.section})) << block.text;
    }
  }
}

}  // namespace
}  // namespace swarm::tests
