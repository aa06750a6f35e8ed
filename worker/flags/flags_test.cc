#include "worker/flags/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

WorkerFlags Trainer() {
  return {.role = WorkerRole::kTrainer,
          .plaintext = true,
          .job = "job.json",
          .out = "out",
          .layout = {2, 1, 13}};
}
WorkerFlags Stage() {
  return {.role = WorkerRole::kStage, .plaintext = true, .id = "worker-3", .trainer = "host:7000"};
}

WorkerFlags ReadBack(const WorkerFlags& flags) {
  const auto command = ParseWorkerFlags(ToArguments(flags));
  EXPECT_TRUE(command.ok()) << command.status().ToString();
  return command.ok() ? command->flags : WorkerFlags();
}

std::string RefusalOf(std::vector<std::string> more) {
  std::vector<std::string> arguments = ToArguments(Stage());
  arguments.insert(arguments.end(), more.begin(), more.end());
  const auto command = ParseWorkerFlags(arguments);
  EXPECT_EQ(command.status().code(), StatusCode::kInvalidArgument);
  return command.status().message();
}

TEST(WorkerFlagsTest, OnlyWhatIsNoDefaultIsWritten) {
  EXPECT_THAT(ToArguments(Stage()),
              ElementsAre("--role=stage", "--plaintext", "--id=worker-3", "--trainer=host:7000"));
  EXPECT_THAT(ToArguments(Trainer()), ElementsAre("--role=trainer", "--plaintext", "--job=job.json",
                                                  "--out=out", "--layout=2,1,13"));
}

TEST(WorkerFlagsTest, EveryOptionIsReadAsItWasWritten) {
  EXPECT_EQ(ReadBack(Trainer()), Trainer());
  EXPECT_EQ(ReadBack(Stage()), Stage());
  const WorkerFlags all{.role = WorkerRole::kTrainer,
                        .listen = "0.0.0.0:7000",
                        .advertise = "$(POD_IP):7000",
                        .metrics_listen = "[::1]:9090",
                        .metrics_address_file = "a folder/metrics",
                        .chaos_file = "chaos",
                        .job_uid = "1-2-3",
                        .tls_ca = "ca=x.crt",
                        .tls_cert = "tls.crt",
                        .tls_key = "tls.key",
                        .plaintext = true,
                        .revoked_file = "revoked",
                        .log_level = "debug",
                        .job = "job.json",
                        .out = "-out",
                        .address_file = "address",
                        .layout = {1, 999'999},
                        .term = ~std::uint64_t{0},
                        .balance = protocol::BalancePolicy::kPeriodic,
                        .resume = true,
                        .keep_workers = true,
                        .stop_seconds = 0,
                        .storage_patience = 86400,
                        .trace_progress = true,
                        .page = "127.0.0.1:8080",
                        .page_address_file = "a folder/page",
                        .id = "w7",
                        .trainer = "trainer:7000",
                        .trainer_gateway = "home.example:7444/job-trainer.team.svc",
                        .threads = 1024,
                        .trainer_patience = 1,
                        .device = "cuda:3",
                        .pod = "p",
                        .pod_memory = 5,
                        .pod_worker = 3,
                        .region = "eu-west, north",
                        .cluster = "west",
                        .gateway = "[fd00::7]:7444/job-w7.job-workers.team.svc",
                        .drain_seconds = 86400,
                        .memory = 1ull << 41,
                        .memory_budget = 1ull << 40,
                        .profile = "profile/w7"};
  EXPECT_EQ(ReadBack(all), all);
  // The test sets every field: each makes an argument.
  const auto help = ParseWorkerFlags({"--help"});
  ASSERT_TRUE(help.ok());
  std::size_t options = 0;
  std::istringstream lines(help->print);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    options += begin != line.npos && line.compare(begin, 2, "--") == 0 ? 1 : 0;
  }
  EXPECT_EQ(ToArguments(all).size(), options - 3)
      << "all but --version, --completion and --devices";
}

TEST(WorkerFlagsTest, AGatewayIsAnAddressAndAName) {
  const auto gateway = ParseGateway("west.example:7444/job-w7.job-workers.team.svc");
  ASSERT_TRUE(gateway.ok()) << gateway.status().ToString();
  EXPECT_EQ(*gateway,
            (protocol::Address{"global", "west.example:7444", "job-w7.job-workers.team.svc"}));
  for (const char* text : {"", "/", "west.example:7444", "west.example:7444/", "west.example/name",
                           "west.example:/name", ":7444/name"}) {
    EXPECT_EQ(ParseGateway(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  WorkerFlags flags = Stage();
  flags.gateway = "west.example";
  const auto read = ParseWorkerFlags(ToArguments(flags));
  EXPECT_THAT(read.status().message(), HasSubstr("write HOST:PORT/NAME"));
}

TEST(WorkerFlagsTest, TheEnvironmentTellsTheRegionOfAPodThatKnowsIt) {
  ::setenv("SWARM_REGION", "eu", 1);
  EXPECT_EQ(ReadBack(Stage()).region, "eu");
  WorkerFlags flags = Stage();
  flags.region = "us";
  EXPECT_EQ(ReadBack(flags).region, "us");
  ::setenv("SWARM_REGION", "", 1);
  EXPECT_EQ(ReadBack(Stage()).region, "local");
  ::unsetenv("SWARM_REGION");
}

TEST(WorkerFlagsTest, TheOperatorTellsATrainerInItsEnvironmentWhereToServeThePage) {
  ::setenv("SWARM_PAGE", "0.0.0.0:9091", 1);
  EXPECT_EQ(ReadBack(Trainer()).page, "0.0.0.0:9091");
  WorkerFlags flags = Trainer();
  flags.page = "127.0.0.1:0";
  EXPECT_EQ(ReadBack(flags).page, "127.0.0.1:0");
  ::unsetenv("SWARM_PAGE");
}

TEST(WorkerFlagsTest, HelpAndVersionArePlainText) {
  for (const char* argument : {"--help", "--version"}) {
    const auto command = ParseWorkerFlags({argument});
    ASSERT_TRUE(command.ok()) << command.status().ToString();
    EXPECT_FALSE(command->print.empty());
    EXPECT_TRUE(std::all_of(command->print.begin(), command->print.end(), [](unsigned char c) {
      return c == '\n' || (c >= ' ' && c < 127);
    })) << command->print;
  }
  EXPECT_THAT(ParseWorkerFlags({"--help"})->print, HasSubstr("None|Periodic|Event"));
}

TEST(WorkerFlagsTest, ARefusalNamesTheOptionAndWhatItTakes) {
  EXPECT_THAT(RefusalOf({"--threads=0"}), HasSubstr("--threads: '0' is not a number of the range"));
  EXPECT_THAT(RefusalOf({"--stop-seconds=soon"}), HasSubstr("[0, 86400]"));
  EXPECT_THAT(RefusalOf({"--balance=Often"}), HasSubstr("None|Periodic|Event"));
  for (const char* layout : {"2,,1", "2,0", "two", "1,", "1000000"}) {
    EXPECT_THAT(RefusalOf({std::string("--layout=") + layout}), HasSubstr("as in 2,1,3")) << layout;
  }
  EXPECT_THAT(RefusalOf({"--nonsense"}), HasSubstr("--nonsense"));
}

TEST(WorkerFlagsTest, ALauncherHasAListOfDevices) {
  WorkerFlags flags = Stage();
  flags.devices = {"cuda:0", "cuda:11", "cpu"};
  EXPECT_THAT(ToArguments(flags), testing::Contains("--devices=cuda:0,cuda:11,cpu"));
  EXPECT_EQ(ReadBack(flags), flags);
  for (const char* list : {"", "cuda", "cuda:", "cuda:x", "cpu,", "cuda:0 cuda:1", "gpu:0"}) {
    EXPECT_THAT(RefusalOf({std::string("--devices=") + list}), HasSubstr("--devices: ")) << list;
  }
  EXPECT_THAT(RefusalOf({"--device=abacus"}), HasSubstr("--device: 'abacus' is no device"));
  EXPECT_THAT(RefusalOf({"--devices=cpu,cpu", "--device=cuda:0"}), HasSubstr("not both"));
  EXPECT_THAT(RefusalOf({"--devices=cpu,cpu", "--metrics-listen=127.0.0.1:0"}),
              HasSubstr("needs --metrics-address-file"));
}

TEST(WorkerFlagsTest, AShellGetsAScriptThatCompletesTheFlagsAndTheirChoices) {
  const auto bash = ParseWorkerFlags({"--completion=bash"});
  ASSERT_TRUE(bash.ok()) << bash.status().ToString();
  EXPECT_THAT(bash->print, HasSubstr("complete -o default -F _swarm_worker swarm-worker\n"));
  EXPECT_THAT(bash->print, HasSubstr("' --role') offer='trainer stage' ;;"));
  EXPECT_THAT(bash->print, HasSubstr("--profile"));
  EXPECT_THAT(ParseWorkerFlags({"--completion", "fish"})->print,
              HasSubstr("complete -c swarm-worker -n \"__swarm_worker_at ''\" -l role -x -a"));
  EXPECT_THAT(RefusalOf({"--completion=csh"}), HasSubstr("--completion"));
}

TEST(WorkerFlagsTest, EachRoleHasOptionsThatItNeeds) {
  const auto refused = [](WorkerFlags flags) {
    return ParseWorkerFlags(ToArguments(flags)).status().message();
  };
  WorkerFlags flags = Trainer();
  flags.layout.clear();
  EXPECT_THAT(refused(flags), HasSubstr("needs --job, --out and --layout"));
  flags = Stage();
  flags.trainer.clear();
  EXPECT_THAT(refused(flags), HasSubstr("needs --id and --trainer"));
  flags = Stage();
  flags.plaintext = false;
  flags.tls_ca = flags.tls_cert = "x";
  EXPECT_THAT(refused(flags), HasSubstr("or --plaintext"));
  EXPECT_FALSE(ParseWorkerFlags({"--plaintext"}).ok()) << "no role";
}

}  // namespace
}  // namespace swarm
