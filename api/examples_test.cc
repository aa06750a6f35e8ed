#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "api/model/decoder_config.h"
#include "api/parse.h"
#include "api/validate.h"

namespace swarm::api {
namespace {

std::string ReadSource(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(std::string(SWARM_SOURCE_DIR) + "/" + name).rdbuf();
  return text.str();
}

DecoderConfig PublishedConfig(const std::string& model) {
  std::vector<FieldError> errors;
  const auto json = nlohmann::json::parse(ReadSource("tests/fixtures/configs/" + model + ".json"));
  DecoderConfig config = ParseDecoderConfig(json, model, &errors);
  EXPECT_TRUE(errors.empty()) << ToString(errors);
  return config;
}

TEST(ExamplesTest, EveryExampleIsAValidManifest) {
  int examples = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(SWARM_SOURCE_DIR) + "/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    const Checked<SwarmJob> job =
        ParseYaml(ReadSource("examples/" + entry.path().filename().string()));
    EXPECT_TRUE(job.ok()) << entry.path() << "\n" << ToString(job.errors());
    ++examples;
  }
  EXPECT_GT(examples, 0);
}

TEST(ExamplesTest, TheShapeOfSmolLM2IsThePublishedOne) {
  const Checked<SwarmJob> job = ParseYaml(ReadSource("examples/smollm2-135m.yaml"));
  ASSERT_TRUE(job.ok()) << ToString(job.errors());
  EXPECT_EQ(job->spec.model.config, PublishedConfig("SmolLM2-135M"));
}

TEST(ExamplesTest, TheJobsOfQwen3FitTheirModel) {
  for (const std::string name : {"qwen3-0.6b", "qwen3-0.6b-chat", "qwen3-0.6b-lora"}) {
    const Checked<SwarmJob> read = ParseYaml(ReadSource("examples/" + name + ".yaml"));
    ASSERT_TRUE(read.ok()) << ToString(read.errors());
    SwarmJob job = *read;
    EXPECT_EQ(job.spec.model.lora.rank > 0, name.ends_with("lora"));
    job.spec.model.config = PublishedConfig("Qwen3-0.6B");
    EXPECT_EQ(ToString(ValidateFit(job)), "") << name;
  }
}

}  // namespace
}  // namespace swarm::api
