#include "worker/data/data_files.h"

#include <gmock/gmock.h>

#include "base/testing/temporary_folder.h"

namespace swarm::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class DataFilesTest : public testing::Test {
 protected:
  std::vector<std::string> NamesIn(const std::string& uri) {
    const auto found = FindDataFiles(uri, {});
    EXPECT_TRUE(found.ok()) << found.status().ToString();
    std::vector<std::string> names;
    if (!found.ok()) return names;
    for (const DataFile& file : found->files) names.push_back(file.name);
    return names;
  }

  const TemporaryFolder folder_;
};

TEST_F(DataFilesTest, TheEndOfANameSaysWhatAFileHolds) {
  EXPECT_EQ(FormatOf("a.txt")->kind, FileKind::kText);
  EXPECT_EQ(FormatOf("a.bin")->kind, FileKind::kShard);
  for (const char* name : {"a.jsonl", "a.ndjson", "c4.00000-of-01024.json.gz", "a.jsonl.zst"}) {
    EXPECT_EQ(FormatOf(name)->kind, FileKind::kJsonLines) << name;
  }
  EXPECT_EQ(FormatOf("train-00000-of-00002.parquet")->kind, FileKind::kParquet);
  EXPECT_EQ(FormatOf("a.txt.gz")->compression, Compression::kGzip);
  EXPECT_EQ(FormatOf("a.jsonl.zst")->compression, Compression::kZstd);
  for (const char* name : {"README.md", "a.gz", "a.bin.gz", "a.parquet.gz", "jsonl"}) {
    EXPECT_FALSE(FormatOf(name)) << name;
  }
}

TEST_F(DataFilesTest, AFolderGivesItsFilesOfDataInTheOrderOfTheirNames) {
  for (const char* name :
       {"b.jsonl", "a/2.bin", "a/1.txt.zst", "README.md", "c.parquet", "dataset_info.json"}) {
    folder_.Put(name, "x");
  }
  EXPECT_THAT(NamesIn(folder_.path().string()),
              ElementsAre("a/1.txt.zst", "a/2.bin", "b.jsonl", "c.parquet"));
}

TEST_F(DataFilesTest, APatternGivesTheFilesThatItMatchesInOneFolder) {
  for (const char* name :
       {"part-0.jsonl", "part-1.json", "part-x.md", "other.jsonl", "deep/part-2.jsonl"}) {
    folder_.Put(name, "x");
  }
  EXPECT_THAT(NamesIn(folder_ / "part-*"), ElementsAre("part-0.jsonl", "part-1.json"));
  EXPECT_THAT(NamesIn("file://" + (folder_ / "*/part-[0-9].jsonl")),
              ElementsAre("deep/part-2.jsonl"));
  EXPECT_THAT(NamesIn(folder_ / "part-?.jsonl"), ElementsAre("part-0.jsonl"));
  EXPECT_THAT(FindDataFiles(folder_ / "none-*", {}).status().message(),
              HasSubstr("none-* matches no files of text (.txt), JSON lines"));
}

TEST_F(DataFilesTest, AFileThatIsNamedIsFoundWhateverItIsCalled) {
  EXPECT_THAT(NamesIn(folder_.Put("notes [1].md", "x")), ElementsAre("notes [1].md"));
  const auto found = FindDataFiles(folder_.Put("notes.gz", "x"), {});
  EXPECT_EQ(found->files[0].format.kind, FileKind::kText);
  EXPECT_EQ(found->files[0].format.compression, Compression::kGzip);
}

}  // namespace
}  // namespace swarm::data
