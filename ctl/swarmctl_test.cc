// The program itself, with a shell script in the place of swarm-worker that keeps its contract.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/identity/authority.h"
#include "ctl/testing/swarmctl_under_test.h"
#include "operator/kube/testing/scripted_server.h"

namespace swarm::ctl {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kManifest = R"(
apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {name: fake}
spec:
  model:
    config: {hidden_size: 64, num_hidden_layers: 4, num_attention_heads: 4,
             intermediate_size: 128, vocab_size: 256}
  data: {uri: corpus.txt}
  training: {maxSteps: 3, globalBatchSize: 8, sequenceLength: 32}
  pipeline: {stages: 2}
  workers: {replicas: 3}
)";

// Parses the flags that the fake needs, then plays its role. A worker writes a file when it starts,
// and leaves when the trainer writes another file. Every wait has a limit.
constexpr const char* kFakeHead = R"(#!/bin/sh
term=1
while [ $# -gt 0 ]; do case "$1" in
  --role=*) role=${1#*=};; --out=*) out=${1#*=};; --address-file=*) address=${1#*=};;
  --id=*) id=${1#*=};; --devices=*) devices=${1#*=};;
  --term=*) term=${1#*=};; --tls-key=*) key=${1#*=};;
esac; shift; done
[ -z "$key" ] || stat -c %a "$key" > "$(dirname "$0")/key.${id:-trainer}"
await() { n=0; while [ ! -e "$1" ] && [ $n -lt 1500 ]; do sleep 0.02; n=$((n+1)); done; [ -e "$1" ]; }
step() { echo "{\"step\":$1,\"loss\":$2,\"tokens_per_second\":10}" >> "$out/steps.jsonl"; }
listen() { echo 127.0.0.1:4711 > "$address.new"; mv "$address.new" "$address"; }
)";
constexpr const char* kFakeStage = R"(
stage() {
  echo "$devices" > "$SHARED/new.$id"
  mv "$SHARED/new.$id" "$SHARED/hello.$id"
  await "$SHARED/over"; exit 0; }
)";

class SwarmctlTest : public SwarmctlUnderTest {
 protected:
  SwarmctlTest() {
    std::string manifest = kManifest;
    manifest.replace(manifest.find("corpus.txt"), 10, Path("corpus.txt"));
    folder_.Put("job.yaml", manifest);
    folder_.Put("corpus.txt", "A corpus of some words");
  }

  // `trainer` is the script of the trainer; `stage` replaces that of a worker.
  void Fake(const std::string& trainer, const std::string& stage = kFakeStage) {
    const std::string text = kFakeHead + ("SHARED='" + folder_.path().string() + "'\n") + stage +
                             "\ntrainer() {\n" + trainer + "\n}\n$role\n";
    EXPECT_TRUE(WriteFile(folder_.path() / "fake-worker", text, 0755).ok());
  }

  void StartRun(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {
        "run",   "-f",       Path("job.yaml"), "--worker-program", Path("fake-worker"),
        "--out", Path("out")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Start(std::move(arguments));
  }
};

TEST_F(SwarmctlTest, TheWorkersOfAListOfDevicesShareAPod) {
  Fake(R"(listen; for i in 0 1; do await "$SHARED/hello.worker-$i" || exit 9; done
       for i in 0 1 2; do step $i 2.5; done; touch "$SHARED/over"; exit 0)");
  StartRun({"--devices", "cpu,cpu"});
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_EQ(Content("hello.worker-0"), "cpu,cpu\n");
  EXPECT_EQ(Content("hello.worker-1"), "\n") << "the third worker is alone";
  EXPECT_FALSE(std::filesystem::exists(Path("hello.worker-2")));
}

TEST_F(SwarmctlTest, AListOfDevicesThatIsNoneIsRefused) {
  Fake("exit 9");
  StartRun({"--devices", "cpu,abacus"});
  EXPECT_EQ(ExitCode(), 2);
  EXPECT_THAT(Output(), HasSubstr("--devices: 'abacus' is no device"));
}

TEST_F(SwarmctlTest, RunsAJobToItsEnd) {
  Fake(R"(listen; for i in 0 1 2; do await "$SHARED/hello.worker-$i" || exit 9; done
       for i in 0 1 2; do step $i 2.5; done; touch "$SHARED/over"; exit 0)");
  StartRun();
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("step 3/3  loss 2.5000  10 tokens/s"));
  EXPECT_THAT(Output(), HasSubstr("Succeeded after "));
  EXPECT_THAT(Output(), HasSubstr("Sample with: swarmctl generate"));
  EXPECT_THAT(Content("out/job.json"), HasSubstr("\"microbatchSize\": 1"));
  EXPECT_THAT(Output(), HasSubstr("--prompt \"A corpus of\""));
  for (const char* name : {"trainer", "worker-0", "worker-2"}) {
    EXPECT_EQ(Content("key." + std::string(name)), "600\n") << name;
  }
  EXPECT_FALSE(std::filesystem::exists(Path("out/tls"))) << "keys do not outlive the run";
}

TEST_F(SwarmctlTest, StagesThatAreAutoAreThoseThatHaveRoom) {
  Fake(R"(listen; await "$SHARED/hello.worker-1"; step 0 2.5; touch "$SHARED/over"; exit 0)");
  StartRun({"--set", "pipeline.stages=Auto", "--workers", "2"});
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("stages: Auto is 1 with 2 workers of "));
  EXPECT_THAT(Content("out/job.json"), HasSubstr("\"stages\": 1"));
  StartRun({"--set", "pipeline.stages=Auto", "--workers", "0=2"});
  EXPECT_EQ(ExitCode(), 2);
  EXPECT_THAT(Output(), HasSubstr("--workers: is 0=2, and the stages are Auto; give a total"));
}

TEST_F(SwarmctlTest, SpeaksJsonToPrograms) {
  Fake(R"(listen; await "$SHARED/hello.worker-2"; step 0 2.5; touch "$SHARED/over"; exit 0)");
  StartRun({"--json", "--plaintext"});
  EXPECT_EQ(ExitCode(), 0) << Output();
  std::istringstream lines(Output());
  std::string line, last;
  int statuses = 0;
  while (std::getline(lines, line)) {
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
    statuses += nlohmann::json::parse(line).contains("maxSteps") ? 1 : 0;
    last = line;
  }
  EXPECT_EQ(statuses, 1);
  EXPECT_EQ(nlohmann::json::parse(last)["result"], "Succeeded");
  EXPECT_FALSE(std::filesystem::exists(Path("out/tls")));
}

TEST_F(SwarmctlTest, ReplacesAWorkerThatDies) {
  Fake(
      R"(listen; await "$SHARED/hello.worker-3" || exit 9; touch "$SHARED/over"; exit 0)",
      R"(stage() { touch "$SHARED/hello.$id"; [ $id = worker-1 ] && kill -9 $$; await "$SHARED/over"; })");
  StartRun();
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("worker-1 was ended by signal 9 (Killed); starting worker-3"));
  EXPECT_THAT(Output(), HasSubstr("workers lost: 1"));
}

TEST_F(SwarmctlTest, StartsAKilledTrainerAgainWithANewTermAtItsAddress) {
  Fake(R"(if [ $term = 1 ]; then listen; kill -9 $$; fi; touch "$SHARED/over"; exit 0)");
  StartRun();
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("the trainer was ended by signal 9 (Killed); starting it again"));
}

TEST_F(SwarmctlTest, ATrainerThatFailsIsReportedWithTheEndOfItsLog) {
  Fake(R"(echo "no such corpus: corpus.txt"; exit 1)");
  StartRun();
  EXPECT_EQ(ExitCode(), 1);
  EXPECT_THAT(Output(), HasSubstr("the trainer ended with exit code 1 before it listened"));
  EXPECT_THAT(Output(), HasSubstr("no such corpus: corpus.txt"));
}

TEST_F(SwarmctlTest, GivesUpWhenEveryWorkerDies) {
  Fake(R"(listen; await "$SHARED/never"; exit 0)", "stage() { exit 1; }");
  StartRun({"--restart-delay", "0"});
  EXPECT_EQ(ExitCode(), 1);
  EXPECT_THAT(Output(), HasSubstr("ended with exit code 1, the last of 11 lost"));
}

constexpr const char* kPatientTrainer = R"(
  trap 'step 1 2.0; touch "$SHARED/over"; exit 0' TERM
  listen; touch "$SHARED/trapped"; await "$SHARED/never"; exit 9)";

TEST_F(SwarmctlTest, AnInterruptionLetsTheTrainerFinishAndTheRunCanGoOn) {
  Fake(kPatientTrainer);
  StartRun();
  AwaitFile("trapped");
  AwaitFile("hello.worker-2");
  Interrupt();
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("Interrupted after "));
  EXPECT_THAT(Output(), HasSubstr("--resume"));
  Fake(R"(touch "$SHARED/over"; listen; exit 0)");
  StartRun();
  EXPECT_EQ(ExitCode(), 2);
  EXPECT_THAT(Output(), HasSubstr("holds an earlier run: continue it with --resume"));
  EXPECT_FALSE(std::filesystem::exists(Path("out/tls"))) << "keys do not outlive the run";
  StartRun({"--resume"});
  EXPECT_EQ(ExitCode(), 0) << Output();
}

TEST_F(SwarmctlTest, AnInterruptionBeforeThereIsACheckpointHasACodeOfItsOwn) {
  Fake(R"(trap 'touch "$SHARED/over"; exit 3' TERM
       listen; touch "$SHARED/trapped"; await "$SHARED/never"; exit 9)");
  StartRun();
  AwaitFile("trapped");
  AwaitFile("hello.worker-2");
  Interrupt();
  EXPECT_EQ(ExitCode(), 3) << Output();
}

TEST_F(SwarmctlTest, ASecondInterruptionKillsEverything) {
  Fake(R"(trap 'touch "$SHARED/asked"' TERM
       listen; touch "$SHARED/trapped"; while :; do sleep 0.02; done)");
  StartRun();
  AwaitFile("trapped");
  AwaitFile("hello.worker-2");
  Interrupt();
  AwaitFile("asked");
  Interrupt();
  EXPECT_EQ(ExitCode(), 130) << Output();
  EXPECT_FALSE(std::filesystem::exists(Path("out/tls"))) << "keys do not outlive the run";
}

TEST_F(SwarmctlTest, AChaosScriptKillsAndAddsWorkersAndTellsIt) {
  Fake(R"(listen; for i in 0 1 2; do await "$SHARED/hello.worker-$i" || exit 9; done
       step 0 2.5; await "$SHARED/hello.worker-3" || exit 9; step 1 2.4
       await "$SHARED/hello.worker-4" || exit 9; touch "$SHARED/over"; exit 0)");
  StartRun({"--restart-delay", "0", "--chaos", "join at step 1; kill worker-1 at step 2"});
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("Chaos: join 1, step 1"));
  EXPECT_THAT(Output(), HasSubstr("Chaos: kill worker-1, step 2"));
  EXPECT_THAT(Output(), HasSubstr("worker-1 was ended by signal 9 (Killed); starting worker-4"));
  EXPECT_THAT(Content("out/chaos.jsonl"), HasSubstr("\"text\":\"kill worker-1\""));
}

TEST_F(SwarmctlTest, AWorkerThatIsLostIsNotReplacedWhereNobodyWantsIt) {
  Fake(R"(listen; await "$SHARED/hello.worker-1" || exit 9; step 0 2.5; await "$SHARED/lost" ||
       exit 9; touch "$SHARED/over"; exit 0)");
  ASSERT_TRUE(WriteFile(Path("script"), "kill worker-1 at step 1\n").ok());
  StartRun({"--no-restart", "--chaos", Path("script")});
  Await("the loss", [&] { return Output().find("it is not replaced") != std::string::npos; });
  ASSERT_TRUE(WriteFile(Path("lost"), "").ok());
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("workers lost: 1"));
  EXPECT_FALSE(std::filesystem::exists(Path("hello.worker-3")));
}

TEST_F(SwarmctlTest, AWorkerThatChaosHasStoppedDoesNotHoldUpTheEnd) {
  Fake(R"(listen; await "$SHARED/hello.worker-1" || exit 9; step 0 2.5
       while ! grep -q stop "$out/chaos.jsonl"; do sleep 0.02; done
       touch "$SHARED/over"; exit 0)");
  StartRun({"--chaos", "stop worker-1 at step 1"});
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(), testing::Not(HasSubstr("workers lost")));
}

TEST_F(SwarmctlTest, WrongManifestsAndFlagsStartNothing) {
  Fake("exit 0");
  StartRun({"--set", "training.maxSteps=0"});
  EXPECT_EQ(ExitCode(), 2);
  EXPECT_THAT(Output(), HasSubstr("spec.training.maxSteps: is 0"));
  StartRun({"--workers", "1"});
  EXPECT_EQ(ExitCode(), 2);
  StartRun({"--set", "suspend=true"});
  EXPECT_EQ(ExitCode(), 2);
  StartRun({"--chaos", "kill any at dawn"});
  EXPECT_EQ(ExitCode(), 2);
  EXPECT_THAT(Output(), HasSubstr("chaos, line 1: 'kill any at dawn': expected 'step N'"));
  StartRun({"--nonsense"});
  EXPECT_EQ(ExitCode(), 2);
  EXPECT_FALSE(std::filesystem::exists(Path("out/job.json")));
}

TEST_F(SwarmctlTest, ARunThatOthersJoinIsRefusedWhereNobodyCould) {
  Fake("exit 9");
  const std::vector<std::pair<std::vector<std::string>, std::string>> refusals = {
      {{"--listen", "127.0.0.1:0", "--plaintext"}, "--listen: needs TLS"},
      {{"--listen", "0.0.0.0:7400"}, "--listen: '0.0.0.0' is no address that others can dial"},
      {{"--listen", "127.0.0.1:0", "--workers-here", "4"}, "--workers-here: is 4 of 3 workers"},
      {{"--workers-here", "1"}, "--workers-here requires --listen"}};
  for (const auto& [flags, words] : refusals) {
    StartRun(flags);
    EXPECT_EQ(ExitCode(), 2) << words;
    EXPECT_THAT(Output(), HasSubstr(words));
  }
  EXPECT_FALSE(std::filesystem::exists(Path("out"))) << "nothing was started";
}

TEST_F(SwarmctlTest, JudgesAManifest) {
  Start({"validate", Path("job.yaml"), "--set", "training.microbatchSize=2", "--set",
         "optimizer.betas=[0.9, 0.99]"});
  EXPECT_EQ(ExitCode(), 0);
  EXPECT_THAT(Output(),
              HasSubstr("fake is valid: 3 steps of 4 microbatches, 2 stages, replicas 2,1"));
  Start({"validate", "-f", Path("job.yaml"), "--set", "trainig.maxSteps=5"});
  EXPECT_EQ(ExitCode(), 2);
  EXPECT_THAT(Output(), HasSubstr("spec.trainig: unknown field; did you mean training?"));
  Start({"validate", "-f", Path("missing.yaml")});
  EXPECT_EQ(ExitCode(), 2);
}

TEST_F(SwarmctlTest, TellsTheFamilyAndTheSizeOfTheModel) {
  const std::string fixtures = SWARM_SOURCE_DIR "/tests/fixtures/";
  Start({"validate", Path("job.yaml")});
  EXPECT_EQ(ExitCode(), 0);
  EXPECT_THAT(Output(), HasSubstr("model: llama, 4 layers, 197,184 parameters"));
  const auto with = [&](const std::string& uri) {
    Start({"validate", Path("job.yaml"), "--set", "model={uri: " + uri + "}", "--set",
           "training.sequenceLength=16", "--set", "data.uri=" + Path("ids.bin")});
  };
  ASSERT_TRUE(WriteFile(folder_.path() / "ids.bin", std::string(1000, '\0')).ok());
  with(fixtures + "qwen3");
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("model: qwen3, 3 layers, 10,272 parameters"));
  EXPECT_THAT(Output(), HasSubstr("memory: the largest stage needs about "));
  EXPECT_THAT(Output(), HasSubstr("tokens: 128 a step, 384 in all"));
  Start({"validate", Path("job.yaml"), "--set", "pipeline.residency=Swap"});
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(),
              HasSubstr("memory: segments of the largest stage take half of the machine's"));
  EXPECT_THAT(Output(), HasSubstr("disk: 0.00"));
  std::filesystem::create_directory(Path("mixtral"));
  std::ofstream(Path("mixtral/config.json")) << R"({"model_type": "mixtral"})";
  with(Path("mixtral"));
  EXPECT_EQ(ExitCode(), 2);
  EXPECT_THAT(Output(), HasSubstr("mixtral/config.json.model_type: is \"mixtral\"; one of"));
}

TEST_F(SwarmctlTest, AManifestWhoseFilesDoNotExistIsNotValid) {
  Start({"validate", Path("job.yaml"), "--set", "data.uri=nowhere/text.txt", "--set",
         "data.validationUri=file:///nowhere/held-back.txt"});
  EXPECT_EQ(ExitCode(), 2);
  EXPECT_THAT(Output(), HasSubstr("spec.data.uri: is nowhere/text.txt, which does not exist here"));
  EXPECT_THAT(Output(), HasSubstr("spec.data.validationUri: is file:///nowhere/held-back.txt"));
  Start({"validate", "--offline", Path("job.yaml"), "--set", "data.uri=s3://bucket/text.txt"});
  EXPECT_EQ(ExitCode(), 0) << Output();
}

TEST_F(SwarmctlTest, AManifestWhoseFilesDoNotFitEachOtherIsNotValid) {
  const auto with = [&](std::vector<std::string> sets) {
    std::vector<std::string> arguments{"validate", Path("job.yaml")};
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    Start(arguments);
    return ExitCode();
  };
  const std::string tokenizer = SWARM_SOURCE_DIR "/tests/fixtures/tokenizers/llama2";
  EXPECT_EQ(with({"model.tokenizer.uri=" + tokenizer}), 2);
  EXPECT_THAT(Output(), HasSubstr("which has 857 ids; the model's vocab_size is 256"));
  EXPECT_EQ(with({"model.tokenizer.uri=" + tokenizer, "model.config.vocab_size=857"}), 0)
      << Output();
  std::filesystem::create_directory(Path("notes"));
  ASSERT_TRUE(WriteFile(folder_.path() / "notes/a.md", "no data").ok());
  EXPECT_EQ(with({"data.uri=" + Path("notes")}), 2);
  EXPECT_THAT(Output(), HasSubstr("spec.data.uri: "));
  std::filesystem::create_directory(Path("unweighted"));
  std::filesystem::copy(SWARM_SOURCE_DIR "/tests/fixtures/qwen3/config.json",
                        Path("unweighted/config.json"));
  EXPECT_EQ(with({"model={uri: " + Path("unweighted") + "}", "training.sequenceLength=16"}), 2);
  EXPECT_THAT(Output(), HasSubstr("give a folder with safetensors, or model.init: Random"));
}

TEST_F(SwarmctlTest, WithoutAClusterTheFlagForOneIsNamed) {
  for (const char* variable : {"KUBECONFIG", "KUBERNETES_SERVICE_HOST"}) ::unsetenv(variable);
  ::setenv("HOME", folder_.path().c_str(), 1);  // it has no .kube/config
  Start({"top"});
  EXPECT_EQ(ExitCode(), 2);
  EXPECT_THAT(Output(), HasSubstr("--kubeconfig FILE"));
  EXPECT_THAT(Output(), HasSubstr("KUBECONFIG"));
}

// An API server with one SwarmJob, for the user of a plugin.
class SwarmctlClusterTest : public SwarmctlTest {
 protected:
  SwarmctlClusterTest() {
    const auto authority = identity::JobAuthority::Create("1-2-3");
    EXPECT_TRUE(authority.ok());
    const auto pair = authority->Issue("server", identity::TrainerUri("1-2-3"));
    EXPECT_TRUE(pair.ok());
    server_.UseIdentity({pair->certificate, pair->key, ""});
    server_.Otherwise([](const kube::SeenRequest& request, kube::Connection& peer) {
      const auto token = request.headers.find("authorization");
      if (token == request.headers.end() || token->second != "Bearer from-the-plugin") {
        return peer.Answer(401, "{}");
      }
      const std::string space = "/apis/swarmjob.dev/v1alpha1/namespaces/team/swarmjobs";
      if (request.target.starts_with(space)) return peer.Answer(200, kJobs);
      if (request.target == "/api/v1/namespaces/team/pods/llama-trainer-1%3A9090/proxy/metrics") {
        return peer.Answer(200,
                           "swarmjob_trainer_loss 2.5\nswarmjob_trainer_remaining_seconds 60\n");
      }
      peer.Answer(404, "{}");
    });
    folder_.Put("clusters/ca.crt", authority->pair().certificate);
    folder_.Put("clusters/config", R"(
current-context: elsewhere
contexts: [{name: work, context: {cluster: work, user: me, namespace: team}}]
clusters: [{name: work, cluster: {server: ')" +
                                       server_.url() + R"(', certificate-authority: ca.crt}}]
)");
    folder_.Put("users/config", R"(
users:
- name: me
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, interactiveMode: Never}
)");
    EXPECT_TRUE(WriteFile(folder_.path() / "users/login", R"(#!/bin/sh
echo '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
       "status": {"token": "from-the-plugin"}}'
)",
                          0755)
                    .ok());
    ::setenv("KUBECONFIG", (Path("clusters/config") + ":" + Path("users/config")).c_str(), 1);
  }
  ~SwarmctlClusterTest() override { ::unsetenv("KUBECONFIG"); }

  static constexpr const char* kJobs = R"({
    "kind": "SwarmJobList", "apiVersion": "swarmjob.dev/v1alpha1",
    "metadata": {"resourceVersion": "1"}, "items": [{
      "metadata": {"name": "llama", "namespace": "team", "uid": "u",
                   "creationTimestamp": "2026-01-01T00:00:00Z"},
      "spec": {},
      "status": {"state": "Running", "step": 120, "trainer": {"term": 1, "podName": "llama-trainer-1"}}
    }]})";
  kube::ScriptedServer server_;
};

TEST_F(SwarmctlClusterTest, ShowsTheJobsOfAContextThatTwoFilesAndAPluginMake) {
  Start({"top", "--once", "--context", "work"});
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(), ContainsRegex("llama +Running +120/0 +2.5000 +- +1m00s"));
  EXPECT_THAT(Output(), Not(HasSubstr("from-the-plugin")));
}

TEST_F(SwarmctlClusterTest, AContextThatDoesNotExistIsNamedBesideThoseThatDo) {
  Start({"top", "--once"});
  EXPECT_EQ(ExitCode(), 2);
  EXPECT_THAT(Output(), AllOf(HasSubstr("no context named 'elsewhere'"), HasSubstr("work")));
}

TEST_F(SwarmctlClusterTest, AServerThatIsNotVerifiedIsWarnedOf) {
  folder_.Put("clusters/config", R"(
current-context: work
contexts: [{name: work, context: {cluster: work, user: me, namespace: team}}]
clusters: [{name: work, cluster: {server: ')" +
                                     server_.url() + R"(', insecure-skip-tls-verify: true}}]
)");
  Start({"top", "--once"});
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(), AllOf(HasSubstr("warning: insecure-skip-tls-verify"), HasSubstr("llama")));
  ASSERT_TRUE(WriteFile(folder_.path() / "logs/swarmctl.log", "").ok());
  Start({"top", "--once", "--allow-insecure"});
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(), AllOf(Not(HasSubstr("warning")), HasSubstr("llama")));
}

TEST_F(SwarmctlTest, AsAPluginOfKubectlItHasTheNameThatTheUserTypes) {
  std::filesystem::create_symlink(SWARM_BIN_DIR "/swarmctl", Path("kubectl-swarmjob"));
  Processes kubectl({Path("kubectl-swarmjob"), folder_.path() / "logs"});
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"top", "--help"}, {"top", "--no-such-flag"}}) {
    ASSERT_TRUE(kubectl.Start({"swarmctl", WorkerRole::kStage, arguments}).ok());
    const Timepoint deadline = Clock::now() + kEndLimit;
    while (kubectl.Observe().front().phase == Phase::kRunning && Clock::now() < deadline) {
      kubectl.Wait(deadline);
    }
  }
  EXPECT_THAT(Output(), AllOf(HasSubstr("Usage: kubectl swarmjob [OPTIONS]"),
                              HasSubstr("kubectl swarmjob top [OPTIONS]")));
}

TEST_F(SwarmctlTest, StartsWithoutLibtorch) {
  // So the loader prints which libraries it would load, and starts nothing.
  ASSERT_EQ(::setenv("LD_TRACE_LOADED_OBJECTS", "1", 1), 0);
  Start({"--version"});
  ASSERT_EQ(::unsetenv("LD_TRACE_LOADED_OBJECTS"), 0);
  EXPECT_EQ(ExitCode(), 0);
  EXPECT_THAT(Output(), AllOf(HasSubstr("libgrpc++"), Not(HasSubstr("libtorch"))));
}

TEST_F(SwarmctlTest, WhereThePartThatComputesIsMissingItIsNamedAndTheRestWorks) {
  std::filesystem::create_directory(Path("bin"));
  std::filesystem::copy(SWARM_BIN_DIR "/swarmctl", Path("bin/swarmctl"));
  Processes alone({Path("bin/swarmctl"), folder_.path() / "logs"});
  const auto code_of = [&](std::vector<std::string> arguments) {
    EXPECT_TRUE(alone.Start({"swarmctl", WorkerRole::kStage, std::move(arguments)}).ok());
    const Timepoint deadline = Clock::now() + kEndLimit;
    while (alone.Observe().front().phase == Phase::kRunning && Clock::now() < deadline) {
      alone.Wait(deadline);
    }
    return alone.Observe().front().exit_code;
  };
  EXPECT_EQ(code_of({"train", "-f", Path("job.yaml")}), 2);
  EXPECT_EQ(Output(), "a part of SwarmJob is missing: " + Path("lib/swarmctl-compute") +
                          ", which computes for this command: No such file or directory; keep lib/"
                          " beside bin/ as both were built or unpacked\n");
  EXPECT_EQ(code_of({"validate", Path("job.yaml")}), 0) << Output();
  EXPECT_EQ(code_of({"train"}), 2) << "wrong usage is told before";
  EXPECT_THAT(Output(), HasSubstr("--filename is required"));
}

TEST_F(SwarmctlTest, ReplaysATrace) {
  ASSERT_TRUE(WriteFile(folder_.path() / "trace.csv", "0,add,a\n0,add,b\n9000,remove,a\n").ok());
  Start({"simulate", "--trace", Path("trace.csv"), "--stages", "2", "--state-load", "10",
         "--policy", "Periodic", "--json"});
  EXPECT_EQ(ExitCode(), 0);
  EXPECT_THAT(Output(), HasSubstr("\"efficiency\": 1.0"));
  Start({"simulate", "--trace", Path("trace.csv"), "--stages", "2", "--state-load", "10",
         "--policy", "Magic"});
  EXPECT_EQ(ExitCode(), 2);
}

TEST_F(SwarmctlTest, HelpListsTheExitCodes) {
  Start({"--help"});
  EXPECT_EQ(ExitCode(), 0);
  EXPECT_THAT(Output(), HasSubstr("130  interrupted twice"));
}

}  // namespace
}  // namespace swarm::ctl
