#include "worker/page/ledger_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/chained_line.h"
#include "base/testing/temporary_folder.h"

namespace swarm::page {
namespace {

class LedgerFileTest : public testing::Test {
 protected:
  /// Appends the line of a step, of so many bytes more.
  std::string Add(std::uint64_t step, std::size_t more = 0) {
    const std::string line = ChainLine(
        "{\"step\":" + std::to_string(step) + ",\"x\":\"" + std::string(more, 'x') + "\"}",
        digest_);
    digest_ = ChainDigest(line);
    std::ofstream(path_, std::ios::app) << line << "\n";
    return line;
  }
  StepAccount Read(std::optional<std::uint64_t> step = {}) const {
    return ReadAccount(path_, step);
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "ledger.jsonl";
  std::string digest_;
};

TEST_F(LedgerFileTest, EachStepIsFoundWithTheDigestBeforeIt) {
  std::vector<std::string> lines;
  // Shorter and longer than what is read at once, and steps that are missing.
  for (std::uint64_t i = 0; i < 100; ++i) lines.push_back(Add(7 + 2 * i, i % 9 == 4 ? 100'000 : i));
  std::string before;
  for (std::uint64_t i = 0; i < lines.size(); ++i) {
    const StepAccount account = Read(7 + 2 * i);
    EXPECT_EQ(account.line, lines[i]);
    EXPECT_EQ(account.digest_before, before);
    EXPECT_TRUE(ChainHolds(account.line, account.digest_before));
    before = ChainDigest(lines[i]);
    EXPECT_EQ(Read(8 + 2 * i).line, "") << "the ledger has no such step";
  }
  EXPECT_EQ(Read(0).line, "");
  EXPECT_EQ(Read(~std::uint64_t{0}).line, "");
  const StepAccount last = Read();
  EXPECT_EQ(last.line, lines.back());
  EXPECT_EQ(last.first, 7u);
  EXPECT_EQ(last.last, 205u);
}

TEST_F(LedgerFileTest, ALineThatIsBeingWrittenIsNotThereYet) {
  EXPECT_EQ(Read().line, "") << "no file";
  std::ofstream(path_, std::ios::app) << "{\"step\":0";
  EXPECT_EQ(Read().line, "");
  std::ofstream(path_, std::ios::app) << "}\n{\"step\":1}";
  EXPECT_EQ(Read().line, "{\"step\":0}");
  EXPECT_EQ(Read(1).line, "");
}

TEST_F(LedgerFileTest, WhatIsNoLedgerHasNoSteps) {
  std::ofstream(path_) << "step 0\n\n{\"step\":}\n";
  EXPECT_EQ(Read(0).line, "");
  EXPECT_FALSE(Read(0).first || Read(0).last);
}

TEST_F(LedgerFileTest, AHugeLineIsNotShown) {
  Add(0);
  Add(1, 5u << 20);
  Add(2);
  EXPECT_EQ(Read(1).line, "");
  EXPECT_EQ(Read(2).line.size(), Read(0).line.size());
}

}  // namespace
}  // namespace swarm::page
