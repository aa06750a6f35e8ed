// The program finds errors before it starts a worker, and the message names their place.
#include "tests/system/system_test.h"

namespace swarm::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string kPretrainedModel =
    std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/llama_grouped";

class SystemInputTest : public SystemTest {
 protected:
  void Write(const std::string& name, const std::string& content) {
    ASSERT_TRUE(WriteFile(Path(name), content).ok());
  }
  /// Data without a text are needed: the model's vocabulary is smaller than that of bytes.
  void StartFromPretrainedModel() {
    job_.spec.model = {.uri = kPretrainedModel, .init = api::ModelInit::kPretrained};
    std::string ids(2 * 4000, '\0');
    for (std::size_t i = 0; i < ids.size(); i += 2) ids[i] = static_cast<char>(i * i % 61);
    Write("ids.bin", ids);
    job_.spec.data.uri = Path("ids.bin");
    job_.spec.pipeline.stages = 2;
    job_.spec.workers = {.replicas = 2, .minReplicas = 2};
  }
  /// Requires that the run ends before it has a worker; returns its output.
  std::string Refused() {
    std::filesystem::remove_all(Out());
    const std::size_t before = Output().size();
    StartRun();
    EXPECT_EQ(ExitCode(), 2);
    EXPECT_THAT(Programs(), IsEmpty());
    EXPECT_FALSE(std::filesystem::exists(Path("out/workers/worker-0.log")));
    return Output().substr(before);
  }
};

TEST_F(SystemInputTest, WrongDataIsRefusedWithFileAndPlace) {
  job_.spec.data.uri = Path("bad.txt");
  Write("bad.txt", "good line\ngood line\nbad \xff byte\n" + std::string(100, 'x'));
  EXPECT_THAT(Refused(), AllOf(HasSubstr("Failed after"),
                               HasSubstr(Path("bad.txt") + " is not UTF-8: byte 24, line 3")));

  Write("bad.txt", "");
  EXPECT_THAT(Refused(), HasSubstr(Path("bad.txt") + " is empty"));

  job_.spec.data.uri = Path("missing.txt");
  EXPECT_THAT(Refused(), HasSubstr(Path("missing.txt")));

  job_.spec.data.uri = Path("ids.bin");
  std::string ids(2 * 200, '\0');
  ids[2 * 150 + 1] = 1;  // id 256, little endian
  Write("ids.bin", ids);
  EXPECT_THAT(Refused(), HasSubstr(Path("ids.bin") + ": id 256 at position 150"));

  Write("ids.bin", std::string(2 * 200 - 1, '\0'));
  EXPECT_THAT(Refused(), HasSubstr(Path("ids.bin") + " is cut off: 399 "));
}

TEST_F(SystemInputTest, WrongModelsAndCheckpointsAreRefused) {
  job_.spec.pipeline.stages = 5;
  job_.spec.workers = {.replicas = 5, .minReplicas = 5};
  EXPECT_THAT(Refused(), HasSubstr("spec.pipeline.stages"));

  job_.spec.pipeline.stages = 2;
  job_.spec.workers = {.replicas = 2, .minReplicas = 2};
  job_.spec.model.config = {};
  job_.spec.model.init = api::ModelInit::kPretrained;
  job_.spec.model.uri = Path("no-model");
  EXPECT_THAT(Refused(), HasSubstr(Path("no-model")));

  job_.spec.model.uri = kPretrainedModel;
  EXPECT_THAT(Refused(), HasSubstr("text.txt is text, and there is no tokenizer; name one"));
}

TEST_F(SystemInputTest, APretrainedModelIsWhereTheTrainingBegins) {
  StartFromPretrainedModel();
  StartRun();
  ASSERT_EQ(ExitCode(), 0) << Output();
  ExpectReferenceLosses();

  const double pretrained = Losses(Out()).front();
  job_.spec.model.init = api::ModelInit::kRandom;
  EXPECT_THAT(Losses(Reference()).front(), Not(testing::DoubleNear(pretrained, 1e-3)));
}

TEST_F(SystemInputTest, WeightsThatAreCutOffEndTheRunWithTheNameOfTheFile) {
  StartFromPretrainedModel();
  std::filesystem::copy(kPretrainedModel, Path("half-model"));
  std::filesystem::resize_file(Path("half-model/model.safetensors"), 5000);
  job_.spec.model.uri = Path("half-model");
  StartRun();
  EXPECT_EQ(ExitCode(), 1);
  EXPECT_THAT(Output(), HasSubstr(Path("half-model/model.safetensors")));
  EXPECT_THAT(Programs(), IsEmpty());
}

}  // namespace
}  // namespace swarm::tests
