#include "worker/storage/s3/s3_storage.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "worker/checkpoint/checkpoint.h"
#include "worker/storage/places.h"
#include "worker/storage/s3/testing/test_s3_server.h"

namespace swarm::storage::s3 {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class S3StorageTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new TestS3Server; }
  static void TearDownTestSuite() { delete server_; }

  // Each test has a prefix of its own.
  static S3Options Options(const std::string& prefix = "") {
    S3Options options;
    options.bucket = "bucket";
    options.prefix =
        std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + "/" + prefix;
    options.endpoint = server_->url();
    options.environment = server_->UserEnvironment();
    return options;
  }
  static void ExpectOk(const Status& status) { EXPECT_TRUE(status.ok()) << status.ToString(); }

  static inline TestS3Server* server_ = nullptr;
};

TEST_F(S3StorageTest, WhatIsWrittenInPiecesIsReadAsOne) {
  const auto storage = OpenS3Storage(Options());
  const std::vector<Bytes> pieces = {Bytes::Copy("one,"), Bytes(), Bytes::Copy("two")};
  ExpectOk(storage->Write("a/b c+ü$&=~.txt", pieces));
  EXPECT_EQ(storage->Read("a/b c+ü$&=~.txt")->text(), "one,two");
  EXPECT_EQ(storage->ReadRange("a/b c+ü$&=~.txt", 4, 3)->text(), "two");
  EXPECT_EQ(*storage->Size("a/b c+ü$&=~.txt"), 7u);
  EXPECT_EQ(storage->ReadRange("a/b c+ü$&=~.txt", 5, 9).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(storage->ReadRange("a/b c+ü$&=~.txt", 9, 1).status().code(), StatusCode::kOutOfRange);
  ExpectOk(storage->Write("a/b c+ü$&=~.txt", Bytes()));
  EXPECT_EQ(*storage->Size("a/b c+ü$&=~.txt"), 0u);
}

TEST_F(S3StorageTest, TheSecondWriterIsRefused) {
  const auto storage = OpenS3Storage(Options());
  ExpectOk(storage->WriteIfAbsent("manifest", Bytes::Copy("first")));
  EXPECT_EQ(storage->WriteIfAbsent("manifest", Bytes::Copy("second")).code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(storage->Read("manifest")->text(), "first");
}

TEST_F(S3StorageTest, ListsAreSortedPagedAndRelative) {
  const auto storage = OpenS3Storage(Options());
  for (const char* name : {"step-2/b", "step-1/a<&>", "other"}) {
    ExpectOk(storage->Write(name, Bytes::Copy("x")));
  }
  EXPECT_THAT(*storage->List(""), ElementsAre("other", "step-1/a<&>", "step-2/b"));
  EXPECT_THAT(*storage->List("step-1"), ElementsAre("step-1/a<&>"));
  EXPECT_THAT(*storage->ListFolders(), ElementsAre("step-1", "step-2"));
  EXPECT_THAT(*OpenS3Storage(Options("step-1/"))->List(""), ElementsAre("a<&>"));
  EXPECT_THAT(*storage->List("absent"), IsEmpty());
}

TEST_F(S3StorageTest, ManyFilesAreListedPageByPage) {
  const auto storage = OpenS3Storage(Options());
  std::vector<std::string> names;
  for (char c = 'a'; c < 'z'; ++c) {  // the server's pages have ten
    names.emplace_back(1, c);
    ExpectOk(storage->Write(names.back(), Bytes()));
  }
  EXPECT_EQ(*storage->List(""), names);
  ExpectOk(storage->Write("k", Bytes::Copy("twelve bytes")));
  EXPECT_EQ(storage->ListFiles("k")->at(0).size, 12u);
}

TEST_F(S3StorageTest, FilesAndFoldersAreRemoved) {
  const auto storage = OpenS3Storage(Options());
  for (const char* name : {"a/1", "a/b/2", "ab/3"}) ExpectOk(storage->Write(name, Bytes()));
  ExpectOk(storage->Remove("a/1"));
  ExpectOk(storage->Remove("a/1"));
  ExpectOk(storage->RemoveFolder("a"));
  EXPECT_THAT(*storage->List(""), ElementsAre("ab/3"));
}

TEST_F(S3StorageTest, LargeContentsGoInPartsAndArriveWhole) {
  S3Options options = Options();
  options.part_bytes = std::uint64_t{5} << 20;
  const auto storage = OpenS3Storage(options);
  std::vector<Bytes> pieces;
  std::string whole;
  for (int i = 0; i < 4; ++i) {
    pieces.push_back(Bytes::Copy(std::string((3 << 20) + i, static_cast<char>('a' + i))));
    whole += pieces.back().text();
  }
  ExpectOk(storage->Write("large", pieces));
  EXPECT_TRUE(storage->Read("large")->text() == whole);
  EXPECT_EQ(storage->WriteIfAbsent("large", pieces).code(), StatusCode::kAlreadyExists);
  ExpectOk(storage->RemoveFolder("absent"));
}

TEST_F(S3StorageTest, AContentThatIsReadInPartsIsWrittenAPartAtATimeAndWholeOrNotAtAll) {
  S3Options options = Options();
  options.part_bytes = std::uint64_t{5} << 20;
  const auto storage = OpenS3Storage(options);
  const std::uint64_t size = (std::uint64_t{12} << 20) + 7;
  const auto letter = [](std::uint64_t offset) { return static_cast<char>('a' + offset % 23); };
  std::vector<std::uint64_t> sizes;
  const ReadPart read = [&](std::uint64_t offset, std::uint64_t count) -> Result<Bytes> {
    sizes.push_back(count);
    return Bytes::Copy(std::string(count, letter(offset)));
  };
  ExpectOk(storage->WriteParts("streamed", size, read));
  EXPECT_THAT(sizes, ElementsAre(5u << 20, 5u << 20, (2u << 20) + 7));
  const Bytes content = *storage->Read("streamed");
  ASSERT_EQ(content.size(), size);
  EXPECT_EQ(content.text().front(), letter(0));
  EXPECT_EQ(content.text().back(), letter(10 << 20));
  const ReadPart fail = [&](std::uint64_t offset, std::uint64_t count) -> Result<Bytes> {
    if (offset > 0) return DataLoss("the rest is gone");
    return Bytes::Copy(std::string(count, 'x'));
  };
  EXPECT_EQ(storage->WriteParts("half", size, fail).code(), StatusCode::kDataLoss);
  EXPECT_EQ(storage->Size("half").status().code(), StatusCode::kNotFound);
}

TEST_F(S3StorageTest, TheKeysOfARegionAreThoseThatBeginWithItsName) {
  const Place place{.region = "eu-1",
                    .uri = "s3://bucket/" + Options().prefix,
                    .options = {.endpoint = server_->url()}};
  const std::string key = "SWARM_STORAGE_EU_1_AWS_ACCESS_KEY_ID";
  const std::string secret = "SWARM_STORAGE_EU_1_AWS_SECRET_ACCESS_KEY";
  EXPECT_EQ((*OpenPlace(place))->Write("x", Bytes()).code(), StatusCode::kUnauthenticated);
  ::setenv(key.c_str(), server_->access_key().c_str(), 1);
  ::setenv(secret.c_str(), server_->secret_key().c_str(), 1);
  // A token belongs to the plain keys.
  ::setenv("AWS_SESSION_TOKEN", "of-others", 1);
  ExpectOk((*OpenPlace(place))->Write("x", Bytes()));
  for (const std::string& name : {key, secret, std::string("AWS_SESSION_TOKEN")}) {
    ::unsetenv(name.c_str());
  }
}

TEST_F(S3StorageTest, WhatIsMissingOrForbiddenIsNamed) {
  const auto storage = OpenS3Storage(Options());
  const Status missing = storage->Read("absent").status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), AllOf(HasSubstr("s3://bucket/"), HasSubstr("NoSuchKey")));
  EXPECT_EQ(storage->Size("absent").status().code(), StatusCode::kNotFound);
  S3Options options = Options();
  options.prefix = "forbidden/";
  EXPECT_EQ(OpenS3Storage(options)->Write("x", Bytes()).code(), StatusCode::kPermissionDenied);
  options.bucket = "other-bucket";
  EXPECT_THAT(OpenS3Storage(options)->List("").status().message(), HasSubstr("NoSuchBucket"));
}

TEST_F(S3StorageTest, AWrongSecretIsRefusedAndNotTold) {
  S3Options options = Options();
  options.environment = [](const char* name) -> std::string {
    const std::string_view wanted(name);
    return wanted == "AWS_ACCESS_KEY_ID"       ? server_->access_key()
           : wanted == "AWS_SECRET_ACCESS_KEY" ? "wrong"
                                               : "";
  };
  const Status status = OpenS3Storage(options)->Write("x", Bytes::Copy("x"));
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("SignatureDoesNotMatch"), testing::Not(HasSubstr("wrong"))));
}

TEST_F(S3StorageTest, ACheckpointIsWrittenFoundReadAndRemoved) {
  const auto storage = OpenS3Storage(Options());
  for (const std::uint64_t version : {1, 2}) {
    const checkpoint::CheckpointId id{protocol::Generation(0), protocol::Version(version)};
    const auto value = static_cast<float>(version);
    const checkpoint::NamedTensor weight{
        "weight", checkpoint::ElementType::kF32, {1}, Bytes::Copy(&value, 4)};
    auto files = checkpoint::WriteStageFiles(*storage, id.Folder(), 0, 1, std::span(&weight, 1));
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    checkpoint::Manifest manifest;
    manifest.version = id.version;
    manifest.stage_count = 1;
    manifest.config_json = "{}";
    manifest.files = *files;
    ExpectOk(checkpoint::PublishManifest(*storage, manifest));
    EXPECT_EQ(checkpoint::PublishManifest(*storage, manifest).code(), StatusCode::kAlreadyExists);
  }
  auto latest = checkpoint::FindLatest(*storage);
  ASSERT_TRUE(latest.ok()) << latest.status().ToString();
  EXPECT_EQ(latest->version, protocol::Version(2));
  checkpoint::CheckpointReader reader(OpenS3Storage(Options("step-00000002-g0/")), *latest);
  const float two = 2;
  EXPECT_EQ(std::memcmp(reader.Lookup("weight")->data.data(), &two, 4), 0);
  EXPECT_EQ(checkpoint::RemoveOld(*storage, 1)->size(), 1u);
  EXPECT_THAT(*storage->ListFolders(), ElementsAre("step-00000002-g0"));
}

}  // namespace
}  // namespace swarm::storage::s3
