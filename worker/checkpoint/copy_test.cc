// Copies of a checkpoint, and readers that go from one to the next.
#include "worker/checkpoint/copy.h"

#include <gmock/gmock.h>

#include <fstream>

#include "base/testing/temporary_folder.h"

namespace swarm::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kNumbers = 5 << 20;  // 20 MiB: a file that is copied in parts

class CopyTest : public testing::Test {
 protected:
  CopyTest() {
    std::vector<float> numbers(kNumbers, 1);
    numbers.back() = 7;
    const NamedTensor tensor{"weight",
                             ElementType::kF32,
                             {static_cast<std::int64_t>(kNumbers)},
                             Bytes::Copy(numbers.data(), numbers.size() * sizeof(float))};
    const auto files = WriteStageFiles(*home_, id_.Folder(), 0, 1, std::span(&tensor, 1));
    EXPECT_TRUE(files.ok());
    EXPECT_TRUE(home_->Write(id_.Folder() + "/tokenizer.json", Bytes::Copy("{}")).ok());
    Manifest manifest{.job_name = "job", .version = id_.version, .stage_count = 1};
    manifest.config_json = "{}";
    manifest.files = *files;
    EXPECT_TRUE(PublishManifest(*home_, manifest).ok());
    digest_ = ReadManifest(*home_, id_)->digest;
  }

  Result<std::uint64_t> Copy(const std::function<Status()>& go_on = [] { return Status(); }) {
    return CopyCheckpoint(*home_, *eu_, id_, go_on);
  }
  std::string PathIn(const char* place, const std::string& name) {
    return folder_.path() / place / id_.Folder() / name;
  }
  /// Changes one byte in the middle of the weights there.
  void Damage(const char* place) {
    std::fstream file(PathIn(place, kWeights), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(1 << 20);
    file.put('x');
  }
  std::vector<storage::Place> Places(std::vector<std::string> names) {
    std::vector<storage::Place> places;
    for (const std::string& name : names) {
      places.push_back({.region = name, .uri = folder_.path() / name});
    }
    return places;
  }
  /// The last weight, as who tries the places in this order reads it.
  Result<float> Read(const std::vector<storage::Place>& places, const Digest& manifest) {
    ASSIGN_OR_RETURN(const auto reader,
                     CheckpointReader::OpenNearest(places, id_.Folder(), manifest));
    ASSIGN_OR_RETURN(const NamedTensor tensor, reader->Lookup("weight"));
    float last = 0;
    std::memcpy(&last, tensor.data.data() + (kNumbers - 1) * sizeof(float), sizeof last);
    return last;
  }

  static constexpr const char* kWeights = "stage-0-of-1.safetensors";
  TemporaryFolder folder_;
  std::unique_ptr<storage::Storage> home_ = *storage::Storage::Open(folder_.path() / "home");
  std::unique_ptr<storage::Storage> eu_ = *storage::Storage::Open(folder_.path() / "eu");
  const CheckpointId id_{{}, protocol::Version(1)};
  Digest digest_;
};

TEST_F(CopyTest, ACopyHasAllFilesAndIsMadeOnce) {
  const auto bytes = Copy();
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  EXPECT_GT(*bytes, kNumbers * sizeof(float));
  EXPECT_EQ(*eu_->List(""), *home_->List(""));
  EXPECT_EQ(*Read(Places({"eu"}), digest_), 7);
  EXPECT_EQ(*Copy(), 0u);
}

TEST_F(CopyTest, ACopyThatIsGivenUpIsNone) {
  int parts = 0;
  const auto copied = Copy([&] { return ++parts > 2 ? Cancelled("enough") : Status(); });
  EXPECT_EQ(copied.status().code(), StatusCode::kCancelled);
  EXPECT_TRUE(ListCheckpoints(*eu_)->empty());
  EXPECT_TRUE(Copy().ok());
  EXPECT_EQ(ListCheckpoints(*eu_)->size(), 1u);
}

TEST_F(CopyTest, AFileThatIsDamagedAtHomeIsNotCopied) {
  Damage("home");
  const auto copied = Copy();
  EXPECT_EQ(copied.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(copied.status().message(), HasSubstr(PathIn("home", kWeights)));
  EXPECT_FALSE(std::filesystem::exists(PathIn("eu", kWeights)));
  EXPECT_TRUE(ListCheckpoints(*eu_)->empty());
}

TEST_F(CopyTest, AnotherCheckpointOfTheNameIsReplaced) {
  ASSERT_TRUE(eu_->Write(id_.Folder() + "/" + kManifestName, Bytes::Copy("{}")).ok());
  ASSERT_TRUE(eu_->Write(id_.Folder() + "/" + kWeights, Bytes::Copy("old")).ok());
  ASSERT_TRUE(Copy().ok());
  EXPECT_EQ(*Read(Places({"eu"}), digest_), 7);
}

TEST_F(CopyTest, AReaderGoesToTheNextPlaceIfTheNearestHasNoManifest) {
  ASSERT_TRUE(Copy().ok());
  std::filesystem::remove(PathIn("eu", kManifestName));
  EXPECT_EQ(*Read(Places({"eu", "home"}), digest_), 7);
  EXPECT_EQ(*Read(Places({"nowhere", "eu", "home"}), digest_), 7);
}

TEST_F(CopyTest, AReaderGoesToTheNextPlaceIfAFileIsMissingOrDamaged) {
  ASSERT_TRUE(Copy().ok());
  Damage("eu");
  EXPECT_EQ(*Read(Places({"eu", "home"}), digest_), 7);
  std::filesystem::remove(PathIn("eu", kWeights));
  EXPECT_EQ(*Read(Places({"eu", "home"}), digest_), 7);
}

TEST_F(CopyTest, AReaderTakesACopyWhenHomeIsGone) {
  ASSERT_TRUE(Copy().ok());
  std::filesystem::remove_all(folder_.path() / "home");
  EXPECT_EQ(*Read(Places({"home", "eu"}), digest_), 7);
}

TEST_F(CopyTest, AReaderRefusesTheManifestOfAnotherCheckpoint) {
  ASSERT_TRUE(Copy().ok());
  const Digest other{.high = 1, .low = 2};
  const auto read = Read(Places({"eu", "home"}), other);
  EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(read.status().message(),
              AllOf(HasSubstr(PathIn("eu", kManifestName)), HasSubstr(PathIn("home", "manifest")),
                    HasSubstr("another checkpoint")));
}

TEST_F(CopyTest, WhereNoPlaceHasAFileIntactAllAreNamed) {
  ASSERT_TRUE(Copy().ok());
  Damage("eu");
  std::filesystem::remove(PathIn("home", kWeights));
  const auto read = Read(Places({"eu", "home"}), digest_);
  EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(read.status().message(),
              AllOf(HasSubstr(PathIn("eu", kWeights)), HasSubstr(PathIn("home", kWeights))));
}

}  // namespace
}  // namespace swarm::checkpoint
