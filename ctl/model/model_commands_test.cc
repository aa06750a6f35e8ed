// train, evaluate, generate and export, as the program itself, on models that are trained in
// seconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "api/model/decoder_config.h"
#include "base/files.h"
#include "base/testing/temporary_folder.h"
#include "ctl/model/trained_model.h"
#include "worker/model/layout/layout.h"
#include "worker/processes/processes.h"
#include "worker/storage/arrow/testing/google_answers.h"
#include "worker/storage/s3/testing/test_http_server.h"
#include "worker/trainer/testing/event_reader.h"

namespace swarm::ctl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Pair;

constexpr const char* kManifest = R"(
apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {name: small}
spec:
  model:
    config: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2,
             intermediate_size: 64, vocab_size: 256, max_position_embeddings: 64}
  data: {uri: DATA}
  training: {seed: 3, maxSteps: 12, globalBatchSize: 4, sequenceLength: 24}
  optimizer: {learningRate: 0.01}
  checkpoint: {intervalSteps: 6, keepLast: 2}
)";

/// A port that was free a moment ago.
int FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(socket, any, size), 0);
  EXPECT_EQ(::getsockname(socket, any, &size), 0);
  ::close(socket);
  return ntohs(address.sin_port);
}

class ModelCommandsTest : public testing::Test {
 protected:
  ModelCommandsTest() : processes_({std::string(SWARM_BIN_DIR) + "/swarmctl", Path("logs")}) {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "the word " + std::to_string(i * i % 17) + " é and\n";
    EXPECT_TRUE(WriteFile(Path("text.txt"), text).ok());
    std::string manifest = kManifest;
    manifest.replace(manifest.find("DATA"), 4, Path("text.txt"));
    EXPECT_TRUE(WriteFile(Path("job.yaml"), manifest).ok());
  }

  // Ends with the exit code; Output() is then what was printed.
  int Run(std::vector<std::string> arguments) {
    Start(std::move(arguments));
    return ExitCode();
  }
  void Start(std::vector<std::string> arguments) {
    std::error_code ignored;  // the log of an earlier command, which would be appended to
    std::filesystem::remove(processes_.LogOf("swarmctl"), ignored);
    ASSERT_TRUE(processes_.Start({"swarmctl", WorkerRole::kStage, std::move(arguments)}).ok());
  }
  int ExitCode() {
    const Timepoint deadline = Clock::now() + seconds(120);
    while (Clock::now() < deadline) {
      const ObservedProgram observed = processes_.Observe().front();
      if (observed.phase == Phase::kExited) return observed.exit_signal ? -1 : observed.exit_code;
      processes_.Wait(deadline);
    }
    ADD_FAILURE() << "swarmctl did not end:\n" << Output();
    return -1;
  }
  std::string Output() { return Content(processes_.LogOf("swarmctl")); }
  nlohmann::json LastJson() {
    std::istringstream lines(Output());
    std::string line, last;
    while (std::getline(lines, line)) last = line;
    EXPECT_TRUE(nlohmann::json::accept(last)) << Output();
    return nlohmann::json::parse(last, nullptr, false);
  }
  std::vector<double> Losses(const std::string& out) {
    std::vector<double> losses;
    std::istringstream lines(Content(Path(out) + "/steps.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      losses.push_back(nlohmann::json::parse(line)["loss"]);
    }
    return losses;
  }
  int Train(const std::string& out, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"train", "-f", Path("job.yaml"), "--out", Path(out)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(std::move(arguments));
  }
  double Evaluate(const std::string& model) {
    const int code =
        Run({"evaluate", "--checkpoint", Path(model), "--data", Path("text.txt"),
             "--sequence-length", "24", "--sequences", "40", "--tokenizer", "byte", "--json"});
    EXPECT_EQ(code, 0) << Output();
    return code == 0 ? LastJson()["loss"].get<double>() : std::nan("");
  }

  static std::string Content(const std::filesystem::path& path) {
    const auto text = ReadFile(path);
    return text.ok() ? *text : std::string();
  }
  std::string Path(const std::string& name) const { return (folder_.path() / name).string(); }

  TemporaryFolder folder_;
  Processes processes_;
};

TEST_F(ModelCommandsTest, AMachineIsMeasuredAsAFleetThatAJobIsPlannedFor) {
  ASSERT_EQ(Run({"probe", "-f", Path("job.yaml"), "--seconds", "0.1", "--name", "a \"b\"",
                 "--scratch", folder_.path()}),
            0)
      << Output();
  const std::string fleet = Output();
  EXPECT_THAT(fleet, HasSubstr("memoryGiB: "));
  EXPECT_THAT(fleet, HasSubstr("diskMBps: "));
  EXPECT_THAT(fleet, HasSubstr("diskSecondsPerGiB: "));
  EXPECT_THAT(fleet, HasSubstr("memoryMBps: "));
  EXPECT_THAT(fleet, HasSubstr("updateMillions: "));
  ASSERT_TRUE(WriteFile(Path("fleet.yaml"), fleet).ok());
  ASSERT_EQ(Run({"plan", "-f", Path("job.yaml"), "--fleet", Path("fleet.yaml")}), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("1 x a \"b\""));
}

TEST_F(ModelCommandsTest, LinksToMachinesThatRunIperfAreMeasuredToo) {
  const std::string port = std::to_string(FreePort());
  Processes servers({"/usr/bin/iperf3", Path("logs")});
  ASSERT_TRUE(servers
                  .Start({"iperf3",
                          WorkerRole::kStage,
                          {"--server", "--port", port, "--bind", "127.0.0.1", "--forceflush"}})
                  .ok());
  const Timepoint deadline = Clock::now() + seconds(60);
  const auto wait_for = [&](const char* what) {
    while (Content(servers.LogOf("iperf3")).find(what) == std::string::npos) {
      ASSERT_LT(Clock::now(), deadline) << Content(servers.LogOf("iperf3"));
      servers.Wait(Clock::now() + milliseconds(20));
    }
  };
  wait_for("listening");
  // The server is busy with another machine's measurement when ours begins.
  ASSERT_TRUE(
      servers
          .Start({"other",
                  WorkerRole::kStage,
                  {"--client", "127.0.0.1", "--port", port, "--time", "2", "--bitrate", "1M"}})
          .ok());
  wait_for("Accepted connection");
  ASSERT_EQ(Run({"probe", "-f", Path("job.yaml"), "--seconds", "0.1", "--region", "eu", "--link",
                 "us=127.0.0.1:" + port}),
            0)
      << Output();
  EXPECT_THAT(Output(), HasSubstr("region: \"eu\""));
  EXPECT_THAT(Output(), HasSubstr("between: [\"eu\", \"us\"], roundTripMs: "));
  EXPECT_THAT(Output(), testing::Not(HasSubstr("mbps: 0}")));
  ASSERT_TRUE(WriteFile(Path("fleet.yaml"), Output()).ok());
  EXPECT_EQ(Run({"plan", "-f", Path("job.yaml"), "--fleet", Path("fleet.yaml")}), 0) << Output();
}

TEST_F(ModelCommandsTest, AProbeSaysWhatItCannotMeasure) {
  EXPECT_EQ(Run({"probe", "-f", Path("job.yaml"), "--seconds", "0.1", "--link", "us"}), 2);
  EXPECT_THAT(Output(), HasSubstr("REGION=HOST"));
  for (const char* host : {"127.0.0.1", "[::1]"}) {
    const std::string nobody = std::string("us=") + host + ":" + std::to_string(FreePort());
    EXPECT_EQ(Run({"probe", "-f", Path("job.yaml"), "--seconds", "0.1", "--link", nobody}), 1);
    EXPECT_THAT(Output(), HasSubstr("start 'iperf3 -s' there"));
  }
  EXPECT_EQ(Run({"probe", "-f", Path("job.yaml"), "--scratch", Path("nowhere")}), 1);
  EXPECT_THAT(Output(), HasSubstr(Path("nowhere")));
  EXPECT_EQ(Run({"probe", "-f", Path("job.yaml"), "--set", "model.config.hidden_size=0"}), 2);
}

TEST_F(ModelCommandsTest, TrainsToTheEndAndWritesWhatARunWrites) {
  ASSERT_EQ(Train("out"), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("step 12/12  loss "));
  EXPECT_THAT(Output(), HasSubstr("Succeeded after "));
  EXPECT_THAT(Output(), HasSubstr("Sample with: swarmctl generate --from " + Path("out")));
  const auto losses = Losses("out");
  ASSERT_EQ(losses.size(), 12u);
  EXPECT_LT(losses.back(), 0.8 * losses.front());
  EXPECT_TRUE(std::filesystem::exists(Path("out/checkpoints/step-00000012-g0/manifest.json")));
  EXPECT_TRUE(std::filesystem::exists(Path("out/checkpoints/step-00000006-g0/manifest.json")));

  EXPECT_EQ(Train("out"), 2);
  EXPECT_THAT(Output(), HasSubstr("holds an earlier run: continue it with --resume"));
}

TEST_F(ModelCommandsTest, AResumedTrainingGoesOnAsIfItHadNotStopped) {
  ASSERT_EQ(Train("whole"), 0) << Output();
  ASSERT_EQ(Train("half"), 0) << Output();
  std::filesystem::remove_all(Path("half/checkpoints/step-00000012-g0"));
  ASSERT_EQ(Train("half", {"--resume", "--json"}), 0) << Output();
  EXPECT_EQ(LastJson()["result"], "Succeeded");
  EXPECT_EQ(LastJson()["step"], 12);
  EXPECT_EQ(Losses("half"), Losses("whole"));
}

// One that is stopped after its checkpoint, and one that goes on.
TEST_F(ModelCommandsTest, TensorBoardShowsTheStepsOnceAfterAReturnToACheckpoint) {
  const std::vector<std::string> log{"--set", "logging.tensorboard=" + Path("curves"), "--set",
                                     "data.validationUri=" + Path("text.txt")};
  ASSERT_EQ(Train("out", log), 0) << Output();
  std::filesystem::remove_all(Path("out/checkpoints/step-00000012-g0"));
  std::vector<std::string> resume{"--resume"};
  resume.insert(resume.end(), log.begin(), log.end());
  ASSERT_EQ(Train("out", resume), 0) << Output();
  const auto curves = trainer::testing::ReadEventFolder(Path("curves"));
  const std::vector<double> losses = Losses("out");
  const auto& drawn = curves.at("train/loss");
  ASSERT_EQ(drawn.size(), losses.size());
  for (std::size_t step = 0; step < losses.size(); ++step) {
    EXPECT_EQ(drawn.at(step), static_cast<float>(losses[step])) << step;
  }
  EXPECT_EQ(curves.at("validation/loss").count(11), 1u);
}

TEST_F(ModelCommandsTest, AnInterruptionFinishesTheStepAndWritesACheckpoint) {
  Start({"train", "-f", Path("job.yaml"), "--out", Path("out"), "--set",
         "training.maxSteps=1000000"});
  for (int i = 0; i < 6000 && Losses("out").size() < 2; ++i) {
    processes_.Wait(Clock::now() + milliseconds(10));
  }
  processes_.Terminate("swarmctl", seconds(100));
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("Interrupted: finishing the step and writing a checkpoint"));
  EXPECT_THAT(Output(), HasSubstr("Interrupted after "));
  const auto found = FindModel(Path("out"));
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->version.value, Losses("out").size());
}

TEST_F(ModelCommandsTest, WhatCannotBeTrainedLeavesTheFolderToTheNextAttempt) {
  EXPECT_EQ(Train("out", {"--set", "data.uri=" + Path("nothing.txt")}), 2);
  EXPECT_THAT(Output(), HasSubstr("nothing.txt"));
  EXPECT_EQ(Train("out", {"--set", "trainig.maxSteps=1"}), 2);
  EXPECT_EQ(Train("out", {"--threads", "0"}), 2);
  EXPECT_EQ(Train("out", {"--set", "training.maxSteps=2"}), 0) << Output();
}

TEST_F(ModelCommandsTest, CheckpointsOfAnotherTrainingAreNotOverwritten) {
  const std::string shared = "checkpoint.uri=" + Path("shared");
  ASSERT_EQ(Train("a", {"--set", shared}), 0) << Output();
  EXPECT_EQ(Train("b", {"--set", shared}), 2);
  EXPECT_THAT(Output(), HasSubstr("holds checkpoints already"));
  // The run's folder still leads to them.
  EXPECT_EQ(FindModel(Path("a"))->uri, Path("shared/step-00000012-g0"));
}

TEST_F(ModelCommandsTest, EveryNameOfAModelLeadsToIt) {
  ASSERT_EQ(Train("out"), 0) << Output();
  ASSERT_EQ(Run({"export", "--checkpoint", Path("out"), "--out", Path("hf")}), 0) << Output();
  const double loss = Evaluate("out");
  EXPECT_LT(loss, 5.0);
  EXPECT_EQ(Evaluate("out/checkpoints"), loss);
  EXPECT_EQ(Evaluate("out/checkpoints/step-00000012-g0/"), loss);
  EXPECT_EQ(Evaluate("hf"), loss);
  EXPECT_GT(Evaluate("out/checkpoints/step-00000006-g0"), loss);

  EXPECT_EQ(Run({"export", "--checkpoint", Path("out"), "--out", Path("hf")}), 2);
  EXPECT_THAT(Output(), HasSubstr("hf is not empty (config.json is there)"));
}

TEST_F(ModelCommandsTest, EvaluatesAllOfTheDataWithTheTrainedSequenceLength) {
  ASSERT_EQ(Train("out", {"--set", "training.maxSteps=2"}), 0) << Output();
  ASSERT_EQ(Run({"evaluate", "--from", Path("out"), "--data", Path("text.txt")}), 0) << Output();
  const auto windows = std::filesystem::file_size(Path("text.txt")) / 25;
  EXPECT_THAT(Output(), HasSubstr("over " + std::to_string(windows) + " sequences of 24 tokens"));
  EXPECT_EQ(Run({"evaluate", "--from", Path("out"), "--data", Path("none.txt")}), 2);
  EXPECT_THAT(Output(), HasSubstr("none.txt"));
}

TEST_F(ModelCommandsTest, BytesCountOneBitEachWhereTokensAreBytes) {
  ASSERT_EQ(Train("out", {"--set", "training.maxSteps=2"}), 0) << Output();
  ASSERT_EQ(Run({"evaluate", "--from", Path("out"), "--data", Path("text.txt"), "--json"}), 0);
  const auto found = LastJson();
  EXPECT_EQ(found["bytes"], found["tokens"]);
  EXPECT_NEAR(found["bitsPerByte"].get<double>(), found["loss"].get<double>() / std::log(2.0),
              1e-9);
}

// The model has seen "word" and never "xylo": it must find the text that goes on as its own more
// likely, however long it is.
TEST_F(ModelCommandsTest, AnswersTheQuestionsWhoseAnswersItHasSeen) {
  ASSERT_EQ(Train("out", {"--set", "training.maxSteps=60"}), 0) << Output();
  ASSERT_TRUE(WriteFile(Path("questions.jsonl"),
                        R"({"context": "the", "choices": ["xylo", "word"], "answer": 1})"
                        "\n"
                        R"({"context": "the ", "choices": ["word", "qqqq"], "answer": 0})"
                        "\n"
                        R"({"context": "the", "choices": ["word", "zzzz"], "answer": 1})"
                        "\n")
                  .ok());
  const std::vector<std::string> evaluate{
      "evaluate", "--from", Path("out"), "--choices", Path("questions.jsonl"), "--json"};
  ASSERT_EQ(Run(evaluate), 0) << Output();
  EXPECT_EQ(LastJson()["questions"], 3);
  EXPECT_NEAR(LastJson()["accuracy"].get<double>(), 2.0 / 3, 1e-9);
  EXPECT_NEAR(LastJson()["normalizedAccuracy"].get<double>(), 2.0 / 3, 1e-9);
  ASSERT_TRUE(WriteFile(Path("questions.jsonl"), "{}").ok());
  EXPECT_EQ(Run(evaluate), 2);
  EXPECT_THAT(Output(), HasSubstr("questions.jsonl: line 1: has no text in the field context"));
  EXPECT_EQ(Run({"evaluate", "--from", Path("out")}), 2);
}

TEST_F(ModelCommandsTest, GeneratesTheSameTextForTheSameSeed) {
  ASSERT_EQ(Train("out"), 0) << Output();
  const auto generate = [this](std::vector<std::string> more) {
    std::vector<std::string> arguments{"generate", "--from",   Path("out"), "--prompt",
                                       "the é",    "--tokens", "40"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(Run(std::move(arguments)), 0) << Output();
    return Output();
  };
  const std::string first = generate({"--seed", "5"});
  EXPECT_TRUE(first.starts_with("the é")) << first;
  EXPECT_EQ(generate({"--seed", "5"}), first);
  EXPECT_NE(generate({"--seed", "6"}), first);
  EXPECT_EQ(generate({"--temperature", "0"}), generate({"--top-k", "1", "--seed", "9"}));
}

TEST_F(ModelCommandsTest, ATextMayOutgrowTheSequencesOfTheTraining) {
  ASSERT_EQ(Train("out", {"--set", "training.maxSteps=2"}), 0) << Output();
  ASSERT_EQ(Run({"generate", "--from", Path("out"), "--prompt", std::string(30, 'x'), "--tokens",
                 "90", "--top-k", "1"}),
            0)
      << Output();
  EXPECT_GT(Output().size(), 30u + 90u / 4);
}

TEST_F(ModelCommandsTest, AnInterruptedTextEndsWithALine) {
  ASSERT_EQ(Train("out", {"--set", "training.maxSteps=2"}), 0) << Output();
  Start({"generate", "--from", Path("out"), "--prompt", "the", "--tokens", "100000000"});
  for (int i = 0; i < 6000 && Output().size() < 20; ++i) {
    processes_.Wait(Clock::now() + milliseconds(10));
  }
  processes_.Terminate("swarmctl", seconds(100));
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_TRUE(Output().ends_with("\n"));
}

TEST_F(ModelCommandsTest, AChatPutsThePromptIntoTheTokenizersTemplateAndPrintsTheAnswer) {
  const std::string fixture = std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/tokenizers/llama2";
  std::filesystem::copy(fixture, Path("named"));
  ASSERT_EQ(Train("out", {"--set", "model.tokenizer.uri=" + Path("named"), "--set",
                          "model.config.vocab_size=857", "--set", "training.maxSteps=2"}),
            0)
      << Output();
  const auto generate = [&](const std::string& prompt, std::vector<std::string> more) {
    std::vector<std::string> arguments{"generate", "--from", Path("out"),     "--prompt", prompt,
                                       "--tokens", "9",      "--temperature", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(std::move(arguments));
  };
  EXPECT_EQ(generate("Hi", {"--chat"}), 2);
  EXPECT_THAT(Output(), HasSubstr("no chat template"));
  EXPECT_EQ(generate("Hi", {"--system", "x"}), 2);
  ASSERT_TRUE(WriteFile(Path("named/chat_template.jinja"),
                        "{{ bos_token }}{% for m in messages %}{{ m.role }} said "
                        "{{ m.content.strip() }}. {% endfor %}Then")
                  .ok());
  const std::string said = "system said Be kind. user said Hi. Then";
  ASSERT_EQ(generate(said, {"--tokenizer", Path("named")}), 0) << Output();
  const std::string whole = Output();
  ASSERT_TRUE(whole.starts_with(said)) << whole;
  ASSERT_EQ(generate(" Hi ", {"--tokenizer", Path("named"), "--chat", "--system", "Be kind"}), 0);
  EXPECT_EQ(Output(), whole.substr(said.size()));
}

// The checkpoint is moved, and what the job named is gone: it carries the tokenizer itself.
TEST_F(ModelCommandsTest, AJobsTokenizerTravelsWithItsCheckpointsAndExports) {
  const std::string fixture = std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/tokenizers/llama2";
  const std::string named = Path("named");
  std::filesystem::copy(fixture, named);
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    lines += nlohmann::json{{"content", "the word " + std::to_string(i * i % 17) + " é"}}.dump();
    lines += "\n";
  }
  ASSERT_TRUE(WriteFile(Path("data.jsonl"), lines).ok());
  ASSERT_EQ(Train("out", {"--set", "model.tokenizer.uri=" + named, "--set",
                          "data.textField=content", "--set", "data.uri=" + Path("data.jsonl"),
                          "--set", "model.config.vocab_size=857"}),
            0)
      << Output();
  std::filesystem::remove_all(named);
  std::filesystem::copy(Path("out/checkpoints/step-00000012-g0"), Path("moved"));
  ASSERT_EQ(Run({"export", "--from", Path("moved"), "--out", Path("hf")}), 0) << Output();
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    EXPECT_EQ(Content(Path("hf") + "/" + name), Content(fixture + "/" + name)) << name;
  }
  const auto map = nlohmann::json::parse(Content(Path("hf/special_tokens_map.json")));
  EXPECT_EQ(map["eos_token"], "</s>");
  const auto config = nlohmann::json::parse(Content(Path("hf/generation_config.json")));
  EXPECT_EQ(config["bos_token_id"], 1);
  EXPECT_EQ(config["eos_token_id"], 2);
  const auto generate = [&](const std::string& from) {
    EXPECT_EQ(Run({"generate", "--from", from, "--prompt", "the é", "--tokens", "9"}), 0)
        << Output();
    return Output();
  };
  EXPECT_TRUE(generate(Path("moved")).starts_with("the é")) << Output();
  EXPECT_EQ(generate(Path("hf")), generate(Path("moved")));
  ASSERT_EQ(Run({"evaluate", "--from", Path("out"), "--data", Path("data.jsonl"), "--json"}), 0)
      << Output();
  EXPECT_LT(LastJson()["loss"].get<double>(), std::log(857));

  // A model's folder brings its tokenizer to the job that names the folder alone.
  ASSERT_EQ(
      Train("more", {"--set", "model={uri: " + Path("hf") + "}", "--set", "data.textField=content",
                     "--set", "data.uri=" + Path("*.jsonl"), "--set", "training.maxSteps=1"}),
      0)
      << Output();
  EXPECT_EQ(Content(Path("more/checkpoints/step-00000001-g0/tokenizer.json")),
            Content(fixture + "/tokenizer.json"));
}

std::string JsonLines(int begin, int end) {
  std::string lines;
  for (int i = begin; i < end; ++i) {
    lines +=
        nlohmann::json{{"text", "the word " + std::to_string(i * i % 17) + " é"}}.dump() + "\n";
  }
  return lines;
}

TEST_F(ModelCommandsTest, ShardsOfATokenizationAreTheDataThatTheyWereMadeOf) {
  std::filesystem::create_directory(Path("data"));
  ASSERT_TRUE(WriteFile(Path("data/a.jsonl"), JsonLines(0, 30)).ok());
  ASSERT_TRUE(WriteFile(Path("data/b.jsonl"), JsonLines(30, 70)).ok());
  const std::string fixture = std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/tokenizers/llama2";
  const std::vector<std::string> tokenize{"tokenize", "--data", Path("data"),  "--tokenizer",
                                          fixture,    "--out",  Path("shards")};
  ASSERT_EQ(Run(tokenize), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("2 of 2 files"));
  EXPECT_THAT(Output(), HasSubstr("tokenType: UInt16"));
  const auto train = [&](const std::string& out, const std::string& data,
                         const std::string& tokenizer) {
    EXPECT_EQ(Train(out, {"--set", "data.uri=" + data, "--set", "model.tokenizer.uri=" + tokenizer,
                          "--set", "model.config.vocab_size=857", "--set", "training.maxSteps=3"}),
              0)
        << Output();
    return Losses(out);
  };
  const auto losses = train("from-text", Path("data"), fixture);
  EXPECT_EQ(losses.size(), 3u);
  EXPECT_EQ(train("from-shards", Path("shards"), Path("shards")), losses);

  // What is there is not made again; what is not there is.
  const std::string shard = Content(Path("shards/b.jsonl.bin"));
  std::filesystem::remove(Path("shards/b.jsonl.bin"));
  ASSERT_TRUE(WriteFile(Path("data/a.jsonl"), "not read").ok());
  ASSERT_EQ(Run(tokenize), 0) << Output();
  EXPECT_EQ(Content(Path("shards/b.jsonl.bin")), shard);
  EXPECT_EQ(Run({"tokenize", "--data", Path("data/b.jsonl"), "--tokenizer", fixture, "--out",
                 Path("shards")}),
            2);
  EXPECT_THAT(Output(), HasSubstr("tokenize.json is of another command"));
}

TEST_F(ModelCommandsTest, ATokenizationNamesWhatItCannotRead) {
  const std::string fixture = std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/tokenizers/llama2";
  ASSERT_TRUE(WriteFile(Path("a.jsonl"), JsonLines(0, 3) + "{\"text\": \"cut").ok());
  std::vector<std::string> tokenize{"tokenize", "--data", Path("a.jsonl"), "--tokenizer",
                                    fixture,    "--out",  Path("shards")};
  EXPECT_EQ(Run(tokenize), 2);
  EXPECT_THAT(Output(), HasSubstr(Path("a.jsonl") + ": line 4: ends in the middle"));
  EXPECT_FALSE(std::filesystem::exists(Path("shards/a.jsonl.bin")));
  tokenize.back() = Path("others");
  tokenize.emplace_back("--skip-bad-documents");
  EXPECT_EQ(Run(tokenize), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("1 of 4 documents were skipped"));
}

TEST_F(ModelCommandsTest, ParquetIsTrainedOnAsItIsAndFromShards) {
  const std::string tokenizer = std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/tokenizers/llama2";
  const std::string tales = std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/parquet/tales.parquet";
  std::filesystem::create_directory(Path("data"));
  std::filesystem::copy(tales, Path("data/train-00000-of-00002.parquet"));
  std::filesystem::copy(tales, Path("data/train-00001-of-00002.parquet"));
  const auto train = [&](const std::string& out, const std::string& data) {
    EXPECT_EQ(Train(out, {"--set", "data.uri=" + data, "--set", "model.tokenizer.uri=" + tokenizer,
                          "--set", "model.config.vocab_size=857", "--set", "training.maxSteps=3"}),
              0)
        << Output();
    return Losses(out);
  };
  const auto losses = train("from-parquet", Path("data/train-*.parquet"));
  EXPECT_EQ(losses.size(), 3u);
  ASSERT_EQ(
      Run({"tokenize", "--data", Path("data"), "--tokenizer", tokenizer, "--out", Path("shards")}),
      0)
      << Output();
  EXPECT_EQ(train("from-shards", Path("shards")), losses);
  EXPECT_EQ(Run({"tokenize", "--data", Path("data"), "--tokenizer", tokenizer, "--out",
                 Path("others"), "--text-field", "content"}),
            2);
  EXPECT_THAT(Output(), HasSubstr("-of-00002.parquet: has no column content; it has text"));

  std::filesystem::resize_file(Path("data/train-00001-of-00002.parquet"), 2000);
  EXPECT_EQ(Train("cut", {"--set", "data.uri=" + Path("data")}), 2);
  EXPECT_THAT(Output(), HasSubstr(Path("data/train-00001-of-00002.parquet") +
                                  ": no Parquet file, or one that is damaged or cut off"));
}

TEST_F(ModelCommandsTest, AnswersAreLearnedAlikeHoweverAStepIsSplitIntoMicrobatches) {
  const std::string fixture = std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/tokenizers/llama2";
  std::filesystem::copy(fixture, Path("tokenizer"));
  std::string lines;
  for (int i = 0; i < 80; ++i) {
    const std::string n = std::to_string(i % 9), more = std::to_string(i % 9 + 1);
    lines += R"({"messages": [{"role": "user", "content": "after )" + n +
             R"("}, {"role": "assistant", "content": ")" + more + R"("})";
    if (i % 3 == 0) {
      lines += R"(, {"role": "user", "content": "why"}, {"role": "assistant", "content": "so"})";
    }
    lines += "]}\n";
  }
  ASSERT_TRUE(WriteFile(Path("chats.jsonl"), lines).ok());
  const auto train = [&](const std::string& out, int rows) {
    return Train(
        out,
        {"--set", "data.uri=" + Path("chats.jsonl"), "--set", "data.format=Chat", "--set",
         "data.documents=Separate", "--set", "data.validationUri=" + Path("chats.jsonl"), "--set",
         "model.tokenizer.uri=" + Path("tokenizer"), "--set", "model.config.vocab_size=857",
         "--set", "training.sequenceLength=64", "--set", "training.globalBatchSize=4", "--set",
         "training.microbatchSize=" + std::to_string(rows)});
  };
  EXPECT_EQ(train("no-template", 1), 2);
  EXPECT_THAT(Output(), HasSubstr("chats.jsonl: the tokenizer has no chat template"));
  ASSERT_TRUE(WriteFile(Path("tokenizer/chat_template.jinja"),
                        "{{ bos_token }}{% for m in messages %}"
                        "{{ '[' + m.role + '] ' + m.content }}"
                        "{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
                        "{% if add_generation_prompt %}{{ '[assistant]' }}{% endif %}")
                  .ok());
  ASSERT_EQ(train("one", 1), 0) << Output();
  ASSERT_EQ(train("four", 4), 0) << Output();
  const auto one = Losses("one"), four = Losses("four");
  ASSERT_EQ(one.size(), 12u);
  ASSERT_EQ(four.size(), 12u);
  for (std::size_t t = 0; t < one.size(); ++t) EXPECT_NEAR(one[t], four[t], 1e-5 * one[t]) << t;
  EXPECT_NEAR(one.front(), std::log(857.0), 1.0);  // a mean over what is learned
  EXPECT_LT(one.back(), 0.8 * one.front());

  // evaluate reads the same examples, and means the same.
  double validation = 0;  // the newest
  std::istringstream events(Content(Path("one/events.jsonl")));
  for (std::string line; std::getline(events, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event["kind"] == "Validation") validation = event["loss"];
  }
  ASSERT_EQ(Run({"evaluate", "--from", Path("one"), "--data", Path("chats.jsonl"), "--sequences",
                 "16", "--json"}),
            0)
      << Output();
  const auto evaluated = LastJson();
  EXPECT_NEAR(evaluated["loss"].get<double>(), validation, 1e-5);
  EXPECT_LT(evaluated["tokens"].get<int>(), 16 * 64 / 2) << "prompts do not count";
}

TEST_F(ModelCommandsTest, CompletionsAreEvaluatedInBitsOfTheirOwnBytes) {
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    lines += R"({"prompt": "the word ", "completion": ")" + std::to_string(i * i % 17) + "\"}\n";
  }
  ASSERT_TRUE(WriteFile(Path("tasks.jsonl"), lines).ok());
  ASSERT_EQ(Train("out", {"--set", "training.maxSteps=2"}), 0) << Output();
  std::vector<std::string> evaluate{"evaluate",          "--from", Path("out"), "--data",
                                    Path("tasks.jsonl"), "--json", "--format",  "PromptCompletion"};
  ASSERT_EQ(Run(evaluate), 0) << Output();
  const auto found = LastJson();
  int bytes = 0;
  for (int i = 0; i < 20; ++i) {
    bytes += static_cast<int>(std::to_string(i * i % 17).size()) + 1;  // and the line end
  }
  EXPECT_EQ(found["tokens"], bytes);
  EXPECT_EQ(found["bytes"], bytes);
  EXPECT_NEAR(found["bitsPerByte"].get<double>(), found["loss"].get<double>() / std::log(2.0),
              1e-9);
  evaluate.back() = "Text";
  EXPECT_EQ(Run(evaluate), 2);
  EXPECT_THAT(Output(), HasSubstr("tasks.jsonl: line 1: has no field text"));
  evaluate.back() = "Poem";
  EXPECT_EQ(Run(evaluate), 2);
}

TEST_F(ModelCommandsTest, AManifestWhoseDataCannotBeReadIsNotValid) {
  const auto validate = [&](const std::string& uri, const std::string& field = "text") {
    const int code = Run({"validate", Path("job.yaml"), "--set", "data.uri=" + uri, "--set",
                          "data.textField=" + field});
    return std::pair(code, Output());
  };
  const std::string tales = std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/parquet/tales.parquet";
  EXPECT_EQ(validate(tales).first, 0) << Output();
  EXPECT_THAT(validate(tales, "content"),
              Pair(2, HasSubstr("spec.data.uri: " + tales + ": has no column content")));
  ASSERT_TRUE(WriteFile(Path("a.jsonl"), JsonLines(0, 1) + "not read").ok());
  EXPECT_EQ(validate(Path("a.jsonl")).first, 0) << Output();
  EXPECT_THAT(validate(Path("a.jsonl"), "body"),
              Pair(2, HasSubstr("line 1: has no field body; it has text")));
  std::filesystem::create_directory(Path("empty"));
  EXPECT_THAT(validate(Path("empty")), Pair(2, HasSubstr("holds no files of text")));
}

// A command each for what tests of the parts have in detail.
TEST_F(ModelCommandsTest, BadDataOfEveryKindEndATrainingWithTheirFileAndPlace) {
  const std::string tokenizer = std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/tokenizers/llama2";
  const auto expect = [&](const std::string& name, const std::string& content,
                          const std::string& message, const std::string& set = "data.format=Text") {
    ASSERT_TRUE(WriteFile(Path(name), content).ok());
    EXPECT_EQ(Train("out",
                    {"--set", "data.uri=" + Path(name), "--set", "model.tokenizer.uri=" + tokenizer,
                     "--set", "model.config.vocab_size=857", "--set", set}),
              2)
        << name;
    EXPECT_THAT(Output(), HasSubstr(Path(name) + message));
  };
  const std::string good = JsonLines(0, 2);
  expect("cut.jsonl", good + "{\"text\": \"cut", ": line 3: ends in the middle of its JSON object");
  expect("none.jsonl", good + "text\n", ": line 3: is no JSON");
  expect("utf8.jsonl", good + "{\"text\": \"\xff\"}\n", ": line 3: is not UTF-8, at byte 10");
  expect("field.jsonl", good, ": line 1: has no field body; it has text", "data.textField=body");
  expect("task.jsonl", good, ": line 1: has no prompt", "data.format=PromptCompletion");
  expect("utf8.txt", "good\nbad \xff", " is not UTF-8: byte 9, line 2");
  expect("cut.jsonl.gz", "\x1f\x8b\x08", ": the compressed file is cut off");
  expect("cut.jsonl.zst", "\x28\xb5\x2f\xfd", ": the compressed file is cut off");
  expect("cut.parquet", "PAR1", ": no Parquet file, or one that is damaged or cut off");
  expect("cut.bin", std::string(2001, '\0'), " is cut off: 2001 bytes are no multiple of 2");
  std::string ids(2000, '\0');
  ids[2 * 700 + 1] = 4;  // 1024, little endian
  expect("ids.bin", ids, ": id 1024 at position 700, the model's vocab_size is 857");
}

TEST_F(ModelCommandsTest, ABucketWithoutRightsOnItIsNamed) {
  storage::s3::TestHttpServer server([](const std::string&) {
    return storage::s3::TestHttpServer::Response(
        403, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>");
  });
  ::setenv("AWS_ACCESS_KEY_ID", "someone", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "else", 1);
  const std::vector<std::string> named{"--set", "storage.endpoint=" + server.url(), "--set",
                                       "data.uri=s3://corpus/web"};
  EXPECT_EQ(Train("out", named), 2);
  EXPECT_THAT(Output(), HasSubstr("s3://corpus/"));
  EXPECT_THAT(Output(), HasSubstr("AccessDenied"));
  std::vector<std::string> validate{"validate", Path("job.yaml")};
  validate.insert(validate.end(), named.begin(), named.end());
  EXPECT_EQ(Run(validate), 2);
  EXPECT_THAT(Output(), HasSubstr("spec.data.uri: "));
  EXPECT_THAT(Output(), HasSubstr("AccessDenied"));
}

TEST_F(ModelCommandsTest, ShardsInABucketOfGooglesAreTrainedOnAsThoseOfADisk) {
  std::map<std::string, std::string> files;
  std::filesystem::create_directory(Path("web"));
  for (const std::string name : {"web/a.bin", "web/b.bin", "web/notes.md"}) {
    for (int i = 0; i < 2000; ++i) {
      files[name] += {static_cast<char>((i * i + name[4]) % 61), '\0'};
    }
    ASSERT_TRUE(WriteFile(Path(name), files[name]).ok());
  }
  storage::s3::TestHttpServer server(
      [&](const std::string& request) { return storage::AnswerAsGoogle(request, files); });
  ::setenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", server.url().c_str(), 1);
  const auto train = [&](const std::string& out, const std::string& uri) {
    EXPECT_EQ(Train(out, {"--set", "data.uri=" + uri}), 0) << Output();
    return Losses(out);
  };
  const auto losses = train("disk", Path("web"));
  EXPECT_EQ(losses.size(), 12u);
  EXPECT_EQ(train("folder", "gs://anonymous@bucket/web"), losses);
  EXPECT_EQ(train("pattern", "gs://anonymous@bucket/web/[ab].bin"), losses);
  EXPECT_EQ(Train("none", {"--set", "data.uri=gs://anonymous@secret/web"}), 2);
  EXPECT_THAT(Output(), HasSubstr("PERMISSION_DENIED"));
  EXPECT_EQ(Train("none", {"--set", "checkpoint.uri=gs://bucket/checkpoints"}), 2);
  EXPECT_THAT(Output(), HasSubstr("spec.checkpoint.uri: has the scheme gs://, from which data alone"
                                  " can be read; write"));
}

TEST_F(ModelCommandsTest, ATokenizerThatDoesNotFitTheModelIsRefusedBeforeTraining) {
  const std::string fixture = std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/tokenizers/llama2";
  EXPECT_EQ(Train("out", {"--set", "model.tokenizer.uri=" + fixture}), 2);
  EXPECT_THAT(Output(), HasSubstr("the tokenizer " + fixture +
                                  " has 857 ids, the model's vocab_size is 256"));
}

TEST_F(ModelCommandsTest, AModelThatWasTrainedOnIdsTakesAndGivesIds) {
  std::string shard;
  for (int i = 0; i < 2000; ++i) shard += {static_cast<char>(i * i % 61), '\0'};
  ASSERT_TRUE(WriteFile(Path("ids.bin"), shard).ok());
  ASSERT_EQ(Train("out", {"--set", "data.uri=" + Path("ids.bin")}), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("--prompt \"1\""));
  ASSERT_EQ(Run({"generate", "--from", Path("out"), "--prompt", "4 9", "--tokens", "3"}), 0)
      << Output();
  EXPECT_THAT(Output(), HasSubstr("the text is ids"));
  EXPECT_THAT(Output(), testing::ContainsRegex("\n4 9( [0-9]+){3}\n"));
  EXPECT_EQ(Run({"generate", "--from", Path("out"), "--prompt", "The"}), 2);
  EXPECT_THAT(Output(), HasSubstr("Write ids, as \"5 17\""));
}

TEST_F(ModelCommandsTest, ADeviceThatIsNoneIsRefusedBeforeAnythingElse) {
  const std::vector<std::vector<std::string>> commands = {
      {"train", "-f", Path("job.yaml"), "--out", Path("out")},
      {"evaluate", "--checkpoint", Path("nothing"), "--data", Path("text.txt")},
      {"generate", "--from", Path("nothing"), "--prompt", "x"}};
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"--device", "abacus"});
    EXPECT_EQ(Run(command), 2);
    EXPECT_THAT(Output(), HasSubstr("'abacus' is no device: write cpu, or cuda:N"));
  }
  EXPECT_FALSE(std::filesystem::exists(Path("out")));
}

TEST_F(ModelCommandsTest, SaysWhatItHasLookedFor) {
  for (const char* command : {"generate", "evaluate", "export"}) {
    std::vector<std::string> arguments{command, "--from", Path("nowhere")};
    if (arguments[0] == "generate") arguments.insert(arguments.end(), {"--prompt", "x"});
    if (arguments[0] == "evaluate") arguments.insert(arguments.end(), {"--data", Path("text.txt")});
    if (arguments[0] == "export") arguments.insert(arguments.end(), {"--out", Path("hf")});
    EXPECT_EQ(Run(arguments), 2) << command;
    EXPECT_THAT(Output(),
                HasSubstr("no model in " + Path("nowhere") + ": it has no manifest.json"));
  }
  EXPECT_EQ(Run({"generate", "--from", Path("nowhere")}), 2);
  EXPECT_THAT(Output(), HasSubstr("--prompt"));
  const std::string fixture = std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/llama_tied";
  EXPECT_EQ(Run({"generate", "--from", fixture, "--prompt", "x"}), 2);
  EXPECT_THAT(Output(), HasSubstr("the model comes without a tokenizer. Write ids"));
}

// Everything of a model that a Hugging Face folder must keep.
void ExpectSameModel(const TrainedModel& a, const TrainedModel& b) {
  EXPECT_EQ(a.config, b.config);
  const auto layout = model::ComputeParameterLayout(a.config, 0, 1);
  ASSERT_TRUE(layout.ok());
  for (const model::ParameterSlot& slot : layout->slots) {
    const auto x = a.weights(slot.name), y = b.weights(slot.name);
    ASSERT_TRUE(x.ok() && y.ok()) << slot.name;
    EXPECT_EQ(x->shape, y->shape) << slot.name;
    EXPECT_EQ(x->data.text(), y->data.text()) << slot.name;
  }
  const auto stage_a = LoadWholeModel(a, 1, "cpu"), stage_b = LoadWholeModel(b, 1, "cpu");
  ASSERT_TRUE(stage_a.ok() && stage_b.ok());
  const std::vector<std::int32_t> ids{1, 7, 3, 11, 0, 5};
  const auto logits_a = (*stage_a)->Logits(a.version, {1, 6, ids});
  const auto logits_b = (*stage_b)->Logits(b.version, {1, 6, ids});
  ASSERT_TRUE(logits_a.ok() && logits_b.ok());
  EXPECT_EQ(logits_a->text(), logits_b->text());
}

// The boundaries travel with the checkpoint.
TEST_F(ModelCommandsTest, AModelWithBoundariesIsEvaluatedAndIfThereIsSuchAPlainOneExported) {
  for (const std::string codec : {"Subspace", "Anchored"}) {
    SCOPED_TRACE(codec);
    const std::string out = Path(codec);
    ASSERT_EQ(
        Run({"train", "-f", Path("job.yaml"), "--out", out, "--set",
             "pipeline.boundary.codec=" + codec, "--set", "pipeline.boundary.rank=8", "--set",
             "pipeline.boundary.layers=[1]", "--set", "data.validationUri=" + Path("text.txt")}),
        0)
        << Output();
    ASSERT_EQ(Run({"evaluate", "--from", out, "--data", Path("text.txt"), "--json"}), 0)
        << Output();
    const double loss = LastJson()["loss"];
    EXPECT_LT(loss, 5.0);
    const int exported = Run({"export", "--from", out, "--out", out + "-plain"});
    if (codec == "Anchored") {
      EXPECT_NE(exported, 0);
      EXPECT_THAT(Output(), HasSubstr("no plain decoder"));
      continue;
    }
    ASSERT_EQ(exported, 0) << Output();
    ASSERT_EQ(Run({"evaluate", "--from", out + "-plain", "--data", Path("text.txt"), "--tokenizer",
                   "byte", "--sequence-length", "24", "--json"}),
              0)
        << Output();
    EXPECT_NEAR(LastJson()["loss"].get<double>(), loss, 2e-3 * loss) << "coefficients are rounded";
  }
}

// Out of the job, into shards, and into the next job.
TEST_F(ModelCommandsTest, AnExportInShardsIsWhatAnotherJobBeginsWith) {
  ASSERT_EQ(Train("out", {"--set", "training.maxSteps=2"}), 0) << Output();
  ASSERT_EQ(Run({"export", "--from", Path("out"), "--out", Path("whole")}), 0) << Output();
  ASSERT_EQ(Run({"export", "--from", Path("out"), "--out", Path("shards"), "--shard-size", "20KB"}),
            0)
      << Output();
  EXPECT_FALSE(std::filesystem::exists(Path("shards/model.safetensors")));
  EXPECT_TRUE(std::filesystem::exists(Path("shards/model.safetensors.index.json")));
  const auto continued = [&](const std::string& model) {
    const std::string out = model + "-more";
    EXPECT_EQ(Train(out, {"--set", "model={uri: " + Path(model) + ", tokenizer: {kind: Byte}}",
                          "--set", "training.maxSteps=3"}),
              0)
        << Output();
    return Losses(out);
  };
  const auto losses = continued("shards");
  EXPECT_EQ(losses.size(), 3u);
  EXPECT_EQ(losses, continued("whole"));
  EXPECT_LT(losses.front(), Losses("out").front());

  ASSERT_EQ(Run({"export", "--from", Path("out"), "--out", Path("half"), "--dtype", "bf16"}), 0);
  EXPECT_NEAR(static_cast<double>(std::filesystem::file_size(Path("half/model.safetensors"))),
              static_cast<double>(std::filesystem::file_size(Path("whole/model.safetensors"))) / 2,
              2000);
  EXPECT_NEAR(Evaluate("half"), Evaluate("whole"), 1e-2);
  EXPECT_EQ(Run({"export", "--from", Path("out"), "--out", Path("x"), "--dtype", "fp8"}), 2);
}

TEST_F(ModelCommandsTest, AdaptersBeginAsTheModelAndAreMergedByAnExport) {
  ASSERT_EQ(Train("out"), 0) << Output();
  ASSERT_EQ(Run({"export", "--from", Path("out"), "--out", Path("base")}), 0) << Output();
  const std::string model = "model={uri: " + Path("base") + ", tokenizer: {kind: Byte}";
  const auto train = [&](const std::string& out, const std::string& lora,
                         std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--set", model + lora + "}"});
    ASSERT_EQ(Train(out, more), 0) << Output();
  };
  train("all", "");
  train("tuned", ", lora: {rank: 4, targets: [q_proj, v_proj, up_proj]}");
  const auto losses = Losses("tuned");
  EXPECT_NEAR(losses.front(), Losses("all").front(), 1e-6) << "B is zero at first";
  EXPECT_LT(Evaluate("tuned"), Evaluate("base")) << "nothing was learned";
  // One that was stopped goes on with its adapters, and with no others.
  std::filesystem::remove_all(Path("tuned/checkpoints/step-00000012-g0"));
  EXPECT_EQ(Train("tuned", {"--resume", "--set", model + ", lora: {rank: 5}}"}), 2);
  EXPECT_THAT(Output(), HasSubstr("lora"));
  train("tuned", ", lora: {rank: 4, targets: [q_proj, v_proj, up_proj]}", {"--resume"});
  EXPECT_EQ(Losses("tuned"), losses);

  ASSERT_EQ(Run({"export", "--from", Path("tuned"), "--out", Path("merged")}), 0) << Output();
  const auto merged = FindModel(Path("merged")), base = FindModel(Path("base"));
  ASSERT_TRUE(merged.ok() && base.ok());
  EXPECT_EQ(merged->lora, api::Lora());
  const auto same = [&](const std::string& name) {
    return merged->weights(name)->data.text() == base->weights(name)->data.text();
  };
  EXPECT_TRUE(same("model.layers.1.mlp.down_proj.weight"));
  EXPECT_TRUE(same("model.embed_tokens.weight"));
  EXPECT_FALSE(same("model.layers.1.mlp.up_proj.weight"));
  EXPECT_NEAR(Evaluate("merged"), Evaluate("tuned"), 1e-5);
  EXPECT_LT(Evaluate("merged"), Evaluate("base"));
}

TEST_F(ModelCommandsTest, AnExportedModelIsTheModel) {
  for (const std::string name : {"llama_tied", "llama_grouped", "llama3", "mistral", "qwen2",
                                 "qwen3", "smollm3", "gemma2", "gemma3"}) {
    SCOPED_TRACE(name);
    const std::string fixture = std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/" + name;
    ASSERT_EQ(Run({"export", "--from", fixture, "--out", Path(name), "--json"}), 0) << Output();
    EXPECT_EQ(LastJson()["out"], Path(name));
    const auto original = FindModel(fixture), exported = FindModel(Path(name));
    ASSERT_TRUE(original.ok()) << original.status().ToString();
    ASSERT_TRUE(exported.ok()) << exported.status().ToString();
    ExpectSameModel(*original, *exported);
    EXPECT_EQ(exported->weights("lm_head.weight").ok(), !original->config.tie_word_embeddings);
  }
}

}  // namespace
}  // namespace swarm::ctl
