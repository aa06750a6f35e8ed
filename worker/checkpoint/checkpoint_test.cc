#include "worker/checkpoint/checkpoint.h"

#include <gmock/gmock.h>

#include <thread>

#include "base/testing/temporary_folder.h"

namespace swarm::checkpoint {
namespace {

using protocol::Generation;
using protocol::Version;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

NamedTensor Floats(std::string name, std::vector<float> values) {
  return {std::move(name),
          ElementType::kF32,
          {static_cast<std::int64_t>(values.size())},
          Bytes::Copy(values.data(), values.size() * 4)};
}

class CheckpointTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::unique_ptr<storage::Storage> storage_ = *storage::Storage::Open(folder_.path().string());

  // The state of stage `stage`: a weight and its moments, and the embedding that all stages share.
  static std::vector<NamedTensor> StateOf(std::uint64_t stage, float value) {
    const std::string weight = "layers." + std::to_string(stage) + ".weight";
    const std::int64_t step = 3;
    return {Floats(weight, {value, 2, 3}),
            Floats("embed.weight", {9}),
            Floats("optimizer.exp_avg." + weight, {value + 1}),
            {"optimizer.step." + weight, ElementType::kI64, {}, Bytes::Copy(&step, 8)}};
  }

  Manifest Begin(CheckpointId id, std::uint64_t stage_count) {
    Manifest manifest;
    manifest.job_name = "llama";
    manifest.job_uid = "uid-1";
    manifest.generation = id.generation;
    manifest.term = protocol::Term(5);
    manifest.version = id.version;
    manifest.seed = 42;
    manifest.stage_count = stage_count;
    manifest.config_json = R"({"hidden_size":64})";
    manifest.boundary_json = R"({"codec":"Anchored"})";
    return manifest;
  }

  // A manifest, not yet published, for files that are all there.
  Manifest WriteFiles(CheckpointId id, std::uint64_t stage_count = 2, float value = 1) {
    Manifest manifest = Begin(id, stage_count);
    for (std::uint64_t stage = 0; stage < stage_count; ++stage) {
      auto files =
          WriteStageFiles(*storage_, id.Folder(), stage, stage_count, StateOf(stage, value));
      EXPECT_TRUE(files.ok()) << files.status().ToString();
      manifest.files.insert(manifest.files.end(), files->begin(), files->end());
    }
    return manifest;
  }

  void WriteCheckpoint(CheckpointId id, std::uint64_t stage_count = 2, float value = 1) {
    const Status status = PublishManifest(*storage_, WriteFiles(id, stage_count, value));
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  std::unique_ptr<CheckpointReader> Read(CheckpointId id) {
    auto reader = CheckpointReader::Open(folder_ / id.Folder());
    EXPECT_TRUE(reader.ok()) << reader.status().ToString();
    return std::move(reader).value();
  }

  static CheckpointId Id(std::uint64_t generation, std::uint64_t version) {
    return {Generation(generation), Version(version)};
  }
};

TEST_F(CheckpointTest, FoldersAreNamedByVersionAndGeneration) {
  EXPECT_EQ(Id(1, 100).Folder(), "step-00000100-g1");
  EXPECT_EQ(CheckpointId::Parse("step-00000100-g1"), Id(1, 100));
  EXPECT_EQ(CheckpointId::Parse(Id(12, 123456789012).Folder()), Id(12, 123456789012));
  for (const char* other : {"step-100-g1", "step-00000100", "step-00000100-g1x", "x", ""}) {
    EXPECT_EQ(CheckpointId::Parse(other), std::nullopt) << other;
  }
}

TEST_F(CheckpointTest, WhatTheStagesWroteIsFoundByNameWhateverTheStage) {
  WriteCheckpoint(Id(0, 100), 3, 7);
  const auto manifest = FindLatest(*storage_);
  ASSERT_TRUE(manifest.ok()) << manifest.status().ToString();
  EXPECT_EQ(manifest->version, Version(100));
  EXPECT_EQ(manifest->seed, 42u);
  EXPECT_EQ(manifest->term, protocol::Term(5));
  EXPECT_EQ(manifest->config_json, R"({"hidden_size":64})");
  EXPECT_EQ(manifest->boundary_json, R"({"codec":"Anchored"})");
  EXPECT_EQ(manifest->files.size(), 6u);
  const auto reader = Read(Id(0, 100));
  for (std::uint64_t stage = 0; stage < 3; ++stage) {
    for (const NamedTensor& tensor : StateOf(stage, 7)) {
      const auto read = reader->Lookup(tensor.name);
      ASSERT_TRUE(read.ok()) << read.status().ToString();
      EXPECT_EQ(read->shape, tensor.shape);
      EXPECT_EQ(read->type, tensor.type);
      EXPECT_EQ(read->data.text(), tensor.data.text());
    }
  }
  EXPECT_EQ(reader->Lookup("other").status().code(), StatusCode::kNotFound);
}

TEST_F(CheckpointTest, WritingAgainGivesTheSameFiles) {
  const Manifest once = WriteFiles(Id(0, 1));
  const Manifest twice = WriteFiles(Id(0, 1));
  ASSERT_EQ(once.files.size(), twice.files.size());
  for (std::size_t i = 0; i < once.files.size(); ++i) {
    EXPECT_EQ(once.files[i].digest, twice.files[i].digest);
  }
}

TEST_F(CheckpointTest, ACrashAtAnyPointBeforeTheManifestLeavesTheOldOneLatest) {
  WriteCheckpoint(Id(0, 100));
  const auto latest = [&] { return FindLatest(*storage_)->version; };
  auto files = *WriteStageFiles(*storage_, Id(0, 200).Folder(), 0, 2, StateOf(0, 1));
  EXPECT_EQ(latest(), Version(100));
  folder_.Put(Id(0, 200).Folder() + "/.manifest.json.tmp-1-2-3", "{}");
  EXPECT_EQ(latest(), Version(100));
  WriteFiles(Id(0, 200));
  EXPECT_EQ(latest(), Version(100));
  WriteCheckpoint(Id(0, 200));
  EXPECT_EQ(latest(), Version(200));
}

TEST_F(CheckpointTest, AManifestIsPublishedOnlyOverFilesThatAreAllThere) {
  Manifest manifest = WriteFiles(Id(0, 1));
  Manifest incomplete = manifest;
  std::erase_if(incomplete.files, [](const auto& f) { return f.name.starts_with("stage-1"); });
  const Status status = PublishManifest(*storage_, incomplete);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("stage-1-of-2"));
  std::filesystem::remove(folder_ / "step-00000001-g0/optimizer-1-of-2.safetensors");
  EXPECT_THAT(PublishManifest(*storage_, manifest).message(), HasSubstr("same storage"));
  folder_.Put("step-00000001-g0/optimizer-1-of-2.safetensors", "cut");
  EXPECT_THAT(PublishManifest(*storage_, manifest).message(), HasSubstr("has 3 bytes"));
  EXPECT_EQ(FindLatest(*storage_).status().code(), StatusCode::kNotFound);
}

TEST_F(CheckpointTest, DelayedModeNeedsThePreviousWeightsOfEveryStage) {
  Manifest manifest = WriteFiles(Id(0, 1), 1);
  manifest.previous = true;
  EXPECT_THAT(PublishManifest(*storage_, manifest).message(), HasSubstr("previous-0-of-1"));
  auto tensors = StateOf(0, 1);
  tensors.push_back(Floats("previous.layers.0.weight", {5}));
  manifest.files = *WriteStageFiles(*storage_, Id(0, 1).Folder(), 0, 1, tensors);
  ASSERT_TRUE(PublishManifest(*storage_, manifest).ok());
  EXPECT_TRUE(Read(Id(0, 1))->manifest().previous);
  EXPECT_TRUE(Read(Id(0, 1))->Lookup("previous.layers.0.weight").ok());
}

TEST_F(CheckpointTest, OfTwoTrainersThatPublishOneWins) {
  const Manifest manifest = WriteFiles(Id(0, 1));
  std::array<Status, 2> outcome;
  {
    std::vector<std::jthread> trainers;
    for (std::size_t i = 0; i < 2; ++i) {
      trainers.emplace_back([&, i] {
        Manifest own = manifest;
        own.term = protocol::Term(10 + i);
        outcome[i] = PublishManifest(*storage_, own);
      });
    }
  }
  const std::size_t winner = outcome[0].ok() ? 0 : 1;
  EXPECT_TRUE(outcome[winner].ok());
  EXPECT_EQ(outcome[1 - winner].code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(FindLatest(*storage_)->term, protocol::Term(10 + winner));
}

TEST_F(CheckpointTest, LatestIsTheHighestGenerationThenVersion) {
  EXPECT_EQ(FindLatest(*storage_).status().code(), StatusCode::kNotFound);
  WriteCheckpoint(Id(0, 300));
  WriteCheckpoint(Id(1, 100));
  WriteCheckpoint(Id(1, 200));
  folder_.Put("notes.txt", "not a checkpoint");
  EXPECT_EQ(FindLatest(*storage_)->version, Version(200));
  EXPECT_THAT(*ListCheckpoints(*storage_), ElementsAre(Id(1, 200), Id(1, 100), Id(0, 300)));
}

TEST_F(CheckpointTest, ADamagedFileIsFoundByItsDigestAndNamed) {
  WriteCheckpoint(Id(0, 1));
  const std::string name = "step-00000001-g0/stage-1-of-2.safetensors";
  std::string content = folder_.Get(name);
  content.back() ^= 1;
  folder_.Put(name, content);
  const auto reader = Read(Id(0, 1));
  const Status status = reader->Lookup("layers.1.weight").status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(folder_ / name), HasSubstr("damaged")));
  EXPECT_TRUE(reader->Lookup("layers.0.weight").ok());
  content.pop_back();
  folder_.Put(name, content);
  EXPECT_THAT(reader->Lookup("layers.1.weight").status().message(), HasSubstr("were written"));
  std::filesystem::remove(folder_ / name);
  EXPECT_EQ(reader->Lookup("layers.1.weight").status().code(), StatusCode::kDataLoss);
}

TEST_F(CheckpointTest, ADamagedManifestIsAnErrorThatSaysWhatToDo) {
  WriteCheckpoint(Id(0, 1));
  WriteCheckpoint(Id(0, 2));
  const std::string name = "step-00000002-g0/manifest.json";
  const std::string good = folder_.Get(name);
  folder_.Put(name, good.substr(0, good.size() / 2));
  const Status status = FindLatest(*storage_).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(folder_ / name), HasSubstr("earlier checkpoint")));
  folder_.Put(name, folder_.Get("step-00000001-g0/manifest.json"));
  EXPECT_THAT(FindLatest(*storage_).status().message(), HasSubstr("belongs to step-00000001-g0"));
  std::filesystem::remove_all(folder_ / "step-00000002-g0");
  EXPECT_EQ(FindLatest(*storage_)->version, Version(1));
}

TEST_F(CheckpointTest, OneThatWasSetAsideCountsNoMoreAndItsFilesStay) {
  for (const std::uint64_t version : {1, 2, 3}) WriteCheckpoint(Id(0, version));
  ASSERT_TRUE(SetAside(*storage_, Id(0, 3), "a file is damaged").ok());
  EXPECT_THAT(*ListCheckpoints(*storage_), ElementsAre(Id(0, 2), Id(0, 1)));
  EXPECT_THAT(*RemoveOld(*storage_, 1), ElementsAre(Id(0, 1)));
  EXPECT_THAT(*ListCheckpoints(*storage_), ElementsAre(Id(0, 2)));
  EXPECT_FALSE(folder_.Get("step-00000003-g0/stage-1-of-2.safetensors").empty());
}

TEST_F(CheckpointTest, ALookAtAllFilesFindsTheDamagedOne) {
  WriteCheckpoint(Id(0, 1));
  EXPECT_TRUE(Read(Id(0, 1))->CheckFiles().ok());
  const std::string name = "step-00000001-g0/stage-1-of-2.safetensors";
  std::string content = folder_.Get(name);
  content.back() ^= 1;
  folder_.Put(name, content);
  EXPECT_THAT(Read(Id(0, 1))->CheckFiles().message(), HasSubstr(name));
}

TEST_F(CheckpointTest, OldOnesAreRemovedButNeverTheNewestNorOneReferenced) {
  for (const std::uint64_t version : {10, 20, 30, 40, 50}) WriteCheckpoint(Id(0, version));
  WriteStageFiles(*storage_, Id(0, 45).Folder(), 0, 2, StateOf(0, 1)).status().ok();
  folder_.Put(Id(0, 47).Folder() + "/.stage-0-of-2.safetensors.tmp-1-2-3", "half");
  const Manifest in_work = WriteFiles(Id(0, 60));
  const std::vector<CheckpointId> referenced = {Id(0, 20)};
  const auto removed = RemoveOld(*storage_, 2, referenced);
  ASSERT_TRUE(removed.ok()) << removed.status().ToString();
  EXPECT_THAT(*removed, ElementsAre(Id(0, 47), Id(0, 45), Id(0, 30), Id(0, 10)));
  EXPECT_THAT(*ListCheckpoints(*storage_), ElementsAre(Id(0, 50), Id(0, 40), Id(0, 20)));
  EXPECT_THAT(*storage_->List("step-00000010"), IsEmpty());
  EXPECT_TRUE(PublishManifest(*storage_, in_work).ok());
  EXPECT_EQ(RemoveOld(*storage_, 0)->size(), 3u);
  EXPECT_THAT(*ListCheckpoints(*storage_), ElementsAre(Id(0, 60)));
}

TEST_F(CheckpointTest, ManifestsWithMissingOrWrongFieldsAreRefused) {
  const std::string good(EncodeManifest(WriteFiles(Id(0, 1)))->text());
  EXPECT_TRUE(DecodeManifest(Bytes::Copy(good)).ok());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    SWARM_CHECK(text.find(from) != std::string::npos, from);
    return DecodeManifest(Bytes::Copy(text.replace(text.find(from), from.size(), to))).status();
  };
  EXPECT_EQ(with("\"format\": 1", "\"format\": 2").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(with("\"version\": 1", "\"version\": -1").code(), StatusCode::kDataLoss);
  EXPECT_EQ(with("\"version\": 1", "\"other\": 1").code(), StatusCode::kDataLoss);
  EXPECT_EQ(with("\"digest\": \"", "\"digest\": \"z").code(), StatusCode::kDataLoss);
  EXPECT_EQ(with("\"tensors\": {", "\"tensors\": {\"a\": 99").code(), StatusCode::kDataLoss);
  EXPECT_EQ(with("\"files\": [", "\"files\": [7,").code(), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeManifest(Bytes::Copy("[]")).status().code(), StatusCode::kDataLoss);
  Manifest no_config = Begin(Id(0, 1), 1);
  no_config.config_json = "[]";
  EXPECT_EQ(EncodeManifest(no_config).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace swarm::checkpoint
