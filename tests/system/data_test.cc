// What a job draws of its data, and how it fares when reading them is hard.
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "tests/system/system_test.h"
#include "worker/storage/s3/testing/test_s3_server.h"
#include "worker/trainer/job_data.h"

namespace swarm::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SystemDataTest : public SystemTest {
 protected:
  /// A shard of `count` ids that a model can learn something of.
  static std::string Shard(std::uint64_t count, std::uint16_t first = 0) {
    std::vector<std::uint16_t> ids(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      ids[i] = static_cast<std::uint16_t>((first + i * i % 7 + i % 50) % 256);
    }
    return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(ids[0])};
  }
  void PutFile(const std::string& name, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    std::ofstream(Path(name), std::ios::binary) << content;
  }
  std::uint64_t Microbatches() const { return job_.microbatches(); }

  /// How often the committed steps have drawn each sequence. What the ledger says of a step is
  /// checked: every stage has summed each microbatch once.
  std::map<std::pair<std::uint32_t, std::uint64_t>, int> Drawn() {
    auto data = trainer::JobData::Open(job_, std::chrono::seconds(10));
    EXPECT_TRUE(data.ok()) << data.status().ToString();
    std::map<std::pair<std::uint32_t, std::uint64_t>, int> drawn;
    std::set<std::uint64_t> steps;
    for (const auto& line : ReadLines(Out() + "/ledger.jsonl")) {
      const std::uint64_t step = line.at("step");
      EXPECT_TRUE(steps.insert(step).second) << "step " << step << " was committed twice";
      if (!line.contains("adopted")) ExpectAllSummed(line);
      for (std::uint64_t m = 0; m < Microbatches(); ++m) {
        for (const auto& place : (*data)->Draw(step, m)) ++drawn[{place.source, place.sequence}];
      }
    }
    EXPECT_EQ(steps.size(), job_.spec.training.maxSteps);
    return drawn;
  }
  /// The workers' own logs say that each step's sums have each microbatch once, also those of steps
  /// that one trainer has begun and another committed.
  void ExpectWitnessed() {
    const std::string command = std::string(SWARM_PYTHON) + " -B " + SWARM_SOURCE_DIR +
                                "/tests/soak/audit.py " + Out() + " > " + Path("audit");
    EXPECT_EQ(std::system(command.c_str()), 0) << Content("audit");
    EXPECT_THAT(Content("audit"), HasSubstr(std::to_string(job_.spec.training.maxSteps) +
                                            " compared with the workers' own accounts"));
  }
  void ExpectAllSummed(const nlohmann::json& line) {
    std::map<std::uint64_t, std::multiset<std::uint64_t>> summed;  // by stage
    for (const auto& group : line.at("groups")) {
      for (const auto& part : group.at("participants")) {
        for (const std::uint64_t m : part.at("microbatches")) summed[part.at("stage")].insert(m);
      }
    }
    EXPECT_FALSE(summed.empty());
    for (const auto& [stage, microbatches] : summed) {
      EXPECT_EQ(microbatches.size(), Microbatches()) << "stage " << stage << " in " << line.dump();
      EXPECT_EQ(std::set(microbatches.begin(), microbatches.end()).size(), Microbatches());
    }
  }
};

TEST_F(SystemDataTest, EverySequenceIsTrainedOnOnceAnEpochWhateverHappens) {
  PutFile("shards/a.bin", Shard(400));
  PutFile("shards/b.bin", Shard(570, 3));
  job_.spec.data.uri = Path("shards");  // 60 sequences of 16, and 10 tokens
  job_.spec.training.maxSteps = kNeverReached;
  StartRun({"--workers", "0=2,1=1,2=2", "--restart-delay", "0.1", "--log-level", "debug"});
  AwaitSteps(3);
  Signal("worker-0", SIGKILL);
  AwaitMoreSteps();
  Signal("trainer", SIGKILL);
  AwaitMoreSteps();
  Signal("swarmctl", SIGINT);
  ASSERT_EQ(ExitCode(), 0) << Output();
  const std::uint64_t epochs = StepsDone() / 10 + 2;  // of 10 steps of 6 sequences

  job_.spec.training.maxSteps = 10 * epochs;
  job_.spec.workers = {.replicas = 2, .minReplicas = 2};
  StartRun({"--resume", "--set", "pipeline.stages=2", "--workers", "0=1,1=2", "--log-level",
            "debug"});
  ASSERT_EQ(ExitCode(), 0) << Output();
  ExpectWitnessed();
  const auto drawn = Drawn();
  EXPECT_EQ(drawn.size(), 60u);
  for (const auto& [place, times] : drawn) {
    EXPECT_EQ(times, static_cast<int>(epochs)) << "sequence " << place.second;
  }
  ExpectReferenceLosses();
}

TEST_F(SystemDataTest, AMixtureInABucketThatGoesAwayCostsNoStep) {
  storage::s3::TestS3Server server;
  ::setenv("AWS_ACCESS_KEY_ID", server.access_key().c_str(), 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", server.secret_key().c_str(), 1);
  job_.spec.storage.endpoint = server.url();
  const auto bucket = storage::Storage::Open("s3://bucket", job_.spec.storage);
  ASSERT_TRUE(bucket.ok()) << bucket.status().ToString();
  ASSERT_TRUE((*bucket)->Write("web/0.bin", Bytes::Copy(Shard(1'000'000))).ok());
  ASSERT_TRUE((*bucket)->Write("web/1.bin", Bytes::Copy(Shard(500'000))).ok());
  job_.spec.data = {.sources = {{{"s3://bucket/web/?.bin", 3}, {Path("text.txt"), 1}}},
                    .cacheBytes = 1 << 20};
  job_.spec.training.maxSteps = kNeverReached;
  StartRun();
  AwaitSteps(4);
  for (int i = 0; i < 3; ++i) {
    server.Pause();
    server.Resume();
    AwaitMoreSteps();
  }
  Signal("swarmctl", SIGINT);
  ASSERT_EQ(ExitCode(), 0) << Output();
  EXPECT_TRUE(Events("MicrobatchStuck").empty());
  EXPECT_TRUE(Events("RolledBack").empty());
  job_.spec.training.maxSteps = StepsDone();
  std::map<std::uint32_t, int> of_source;
  for (const auto& [place, times] : Drawn()) of_source[place.first] += times;
  EXPECT_NEAR(of_source[0], 4.5 * static_cast<double>(StepsDone()), 2);
  EXPECT_NEAR(of_source[1], 1.5 * static_cast<double>(StepsDone()), 2);
  ExpectReferenceLosses();
}

TEST_F(SystemDataTest, AnIdThatTheModelDoesNotHaveEndsTheJobWithItsPlace) {
  std::string shard = Shard(1'000'000);
  const std::uint16_t bad = 300;
  for (std::uint64_t i = 60'000; i < 62'000; ++i) {  // between the places of the sample
    std::memcpy(shard.data() + i * 2, &bad, 2);
  }
  PutFile("shards/a.bin", shard);
  job_.spec.data = {.uri = Path("shards"), .cacheBytes = 8 << 20};
  job_.spec.training.maxSteps = kNeverReached;
  StartRun();
  EXPECT_EQ(ExitCode(), 2) << Output();
  EXPECT_THAT(Output(), AllOf(HasSubstr("shards/a.bin: id 300 at position 6"),
                              HasSubstr("the model's vocab_size is 256")));
}

}  // namespace
}  // namespace swarm::tests
