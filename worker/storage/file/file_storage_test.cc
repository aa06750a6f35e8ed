#include "worker/storage/file/file_storage.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "base/testing/temporary_folder.h"

namespace swarm::storage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Runs `story` in a child process, so that limits and mounts are the child's alone, and returns its
// exit code.
int InChild(const std::function<int()>& story) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(story());
  int state = 0;
  EXPECT_EQ(::waitpid(child, &state, 0), child);
  return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

class FileStorageTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::unique_ptr<Storage> storage_ = *Storage::Open("file://" + folder_.path().string());

  std::size_t FilesOnDisk() {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      count += entry.is_regular_file() ? 1 : 0;
    }
    return count;
  }
};

TEST_F(FileStorageTest, WhatIsWrittenInPiecesIsReadAsOne) {
  const std::vector<Bytes> pieces = {Bytes::Copy("one,"), Bytes(), Bytes::Copy("two")};
  ASSERT_TRUE(storage_->Write("a/b/numbers", pieces).ok());
  EXPECT_EQ(storage_->Read("a/b/numbers")->text(), "one,two");
  EXPECT_EQ(storage_->Map("a/b/numbers")->text(), "one,two");
  EXPECT_EQ(storage_->ReadRange("a/b/numbers", 4, 3)->text(), "two");
  EXPECT_EQ(*storage_->Size("a/b/numbers"), 7u);
  EXPECT_EQ(storage_->ReadRange("a/b/numbers", 5, 3).status().code(), StatusCode::kOutOfRange);
  ASSERT_TRUE(storage_->Write("empty", Bytes()).ok());
  EXPECT_EQ(storage_->Map("empty")->size(), 0u);
}

TEST_F(FileStorageTest, AContentThatIsReadInPartsIsWrittenWholeOrNotAtAll) {
  const std::uint64_t size = (std::uint64_t{20} << 20) + 3;
  std::uint64_t last = 0;
  const ReadPart read = [&](std::uint64_t offset, std::uint64_t count) -> Result<Bytes> {
    EXPECT_EQ(offset, last);
    EXPECT_LE(count, std::uint64_t{64} << 20);
    last = offset + count;
    return Bytes::Copy(std::string(count, 'x'));
  };
  ASSERT_TRUE(storage_->WriteParts("streamed", size, read).ok());
  EXPECT_TRUE(storage_->Read("streamed")->text() == std::string(size, 'x'));
  const ReadPart fail = [&](std::uint64_t offset, std::uint64_t count) -> Result<Bytes> {
    if (offset > 0) return DataLoss("the rest is gone");
    return Bytes::Copy(std::string(count, 'y'));
  };
  EXPECT_EQ(storage_->WriteParts("half", size, fail).code(), StatusCode::kDataLoss);
  EXPECT_EQ(FilesOnDisk(), 1u);
}

TEST_F(FileStorageTest, AReplacedFileLeavesItsMappingAsItWas) {
  ASSERT_TRUE(storage_->Write("file", Bytes::Copy("before")).ok());
  const Bytes mapped = *storage_->Map("file");
  ASSERT_TRUE(storage_->Write("file", Bytes::Copy("after")).ok());
  EXPECT_EQ(mapped.text(), "before");
  EXPECT_EQ(folder_.Get("file"), "after");
}

TEST_F(FileStorageTest, MissingFilesAreNotFoundAndNamed) {
  const Status status = storage_->Read("absent").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr(folder_ / "absent"));
  EXPECT_EQ(storage_->Read("").status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(*storage_->List(""), IsEmpty());
  EXPECT_THAT(*storage_->List("no/such/folder"), IsEmpty());
  EXPECT_TRUE(storage_->Remove("absent").ok());
}

TEST_F(FileStorageTest, NamesThatLeaveTheFolderAreRefused) {
  for (const char* name : {"../x", "a/../../x", "/etc/passwd", "a//b", ".", "a/."}) {
    EXPECT_EQ(storage_->Write(name, Bytes()).code(), StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(storage_->Read(name).status().code(), StatusCode::kInvalidArgument) << name;
  }
}

TEST_F(FileStorageTest, OfManyWritersOneWinsAndNothingOfTheOthersIsLeft) {
  std::atomic<int> won = 0;
  std::atomic<int> lost = 0;
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 8; ++i) {
      writers.emplace_back([&, i] {
        const Status status =
            storage_->WriteIfAbsent("manifest", Bytes::Copy(std::string(1000, 'a' + i)));
        if (status.ok()) ++won;
        if (status.code() == StatusCode::kAlreadyExists) ++lost;
      });
    }
  }
  EXPECT_EQ(won, 1);
  EXPECT_EQ(lost, 7);
  EXPECT_EQ(FilesOnDisk(), 1u);
  const std::string content = folder_.Get("manifest");
  EXPECT_EQ(content, std::string(1000, content[0]));
}

TEST_F(FileStorageTest, ListIsSortedFilteredAndShowsNoTemporaryFiles) {
  for (const char* name : {"step-2/b", "step-1/a", "step-1/c", "other"}) {
    ASSERT_TRUE(storage_->Write(name, Bytes::Copy("x")).ok());
  }
  folder_.Put("step-1/.a.tmp-1-2-3", "half");
  EXPECT_THAT(*storage_->List(""), ElementsAre("other", "step-1/a", "step-1/c", "step-2/b"));
  EXPECT_THAT(*storage_->List("step-"), ElementsAre("step-1/a", "step-1/c", "step-2/b"));
  EXPECT_THAT(*storage_->List("step-1/"), ElementsAre("step-1/a", "step-1/c"));
  EXPECT_THAT(*storage_->List("step-1/c"), ElementsAre("step-1/c"));
}

TEST_F(FileStorageTest, FoldersAreListedAndRemovedWithAllThatIsLeftInThem) {
  ASSERT_TRUE(storage_->Write("step-1/deep/a", Bytes::Copy("x")).ok());
  folder_.Put("step-2/.a.tmp-1-2-3", "half");
  folder_.Put("file", "x");
  EXPECT_THAT(*storage_->ListFolders(), ElementsAre("step-1", "step-2"));
  ASSERT_TRUE(storage_->RemoveFolder("step-1").ok());
  ASSERT_TRUE(storage_->RemoveFolder("step-2").ok());
  ASSERT_TRUE(storage_->RemoveFolder("absent").ok());
  EXPECT_FALSE(storage_->RemoveFolder("..").ok());
  EXPECT_THAT(*storage_->ListFolders(), IsEmpty());
  EXPECT_EQ(FilesOnDisk(), 1u);
}

TEST_F(FileStorageTest, AWriterKilledInTheMiddleChangesNothing) {
  ASSERT_TRUE(storage_->Write("state", Bytes::Copy("old")).ok());
  const int code = InChild([&] {
    // The limit's signal ends the child after the first kilobyte, wherever it is then.
    const rlimit limit{1024, 1024};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = storage_->Write("state", Bytes::Copy(std::string(1 << 20, 'n')));
    return status.ok() ? 0 : 1;
  });
  EXPECT_EQ(code, 128 + SIGXFSZ);
  EXPECT_EQ(storage_->Read("state")->text(), "old");
  EXPECT_THAT(*storage_->List(""), ElementsAre("state"));
  ASSERT_TRUE(storage_->Remove("state").ok());
  EXPECT_THAT(*storage_->List(""), IsEmpty());
}

TEST_F(FileStorageTest, AFileThatMayNotGrowIsAClearErrorAndNothingIsLeft) {
  ASSERT_TRUE(storage_->Write("state", Bytes::Copy("old")).ok());
  const int code = InChild([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1024, 1024};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = storage_->Write("state", Bytes::Copy(std::string(1 << 20, 'n')));
    const bool clear = status.code() == StatusCode::kResourceExhausted &&
                       status.message().find(folder_ / "state") != std::string::npos;
    return clear ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(storage_->Read("state")->text(), "old");
  EXPECT_EQ(FilesOnDisk(), 1u);
}

TEST_F(FileStorageTest, AFullDiskIsAClearErrorAndNothingIsLeft) {
  constexpr int kNotPermitted = 77;
  const int code = InChild([&] {
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
      return kNotPermitted;
    }
    ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    const std::string disk = folder_.path().string();
    if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=256k") != 0) return kNotPermitted;
    if (!storage_->Write("state", Bytes::Copy("old")).ok()) return 1;
    const Status status = storage_->Write("state", Bytes::Copy(std::string(1 << 20, 'n')));
    if (status.code() != StatusCode::kResourceExhausted) return 2;
    if (status.message().find("No space left") == std::string::npos) return 3;
    if (storage_->Read("state")->text() != "old" || FilesOnDisk() != 1) return 4;
    return 0;
  });
  if (code == kNotPermitted) GTEST_SKIP() << "mounting a small disk is not permitted here";
  EXPECT_EQ(code, 0);
}

TEST(StorageTest, UrisSaySomethingOrAreRefused) {
  EXPECT_EQ((*Storage::Open("file:///a/b/"))->Describe("c"), "/a/b/c");
  EXPECT_EQ((*Storage::Open("a/b"))->Describe("c"), "a/b/c");
  for (const char* uri :
       {"", "file://host/a", "http://host/a", "ftp://host/a", "gs://", "abfs://"}) {
    EXPECT_EQ(Storage::Open(uri).status().code(), StatusCode::kInvalidArgument) << uri;
  }
  EXPECT_EQ(SplitLastName("s3://b/p/x.txt").folder, "s3://b/p");
  EXPECT_EQ(SplitLastName("x.txt").folder, ".");
  EXPECT_EQ(SplitLastName("/x.txt").folder, "/");
}

}  // namespace
}  // namespace swarm::storage
