#include "worker/trainer/checkpoints/fence.h"

#include <gtest/gtest.h>

#include "base/testing/temporary_folder.h"
#include "worker/trainer/log/run_log.h"
#include "worker/trainer/log/step_archive.h"

namespace swarm::trainer {
namespace {

using protocol::Generation;
using protocol::Term;

class FenceTest : public testing::Test {
 protected:
  std::unique_ptr<storage::Storage> Storage() {
    auto storage = storage::Storage::Open(folder_.path().string());
    EXPECT_TRUE(storage.ok());
    return *std::move(storage);
  }
  Result<std::unique_ptr<Fence>> Make(std::uint64_t term, const std::string& job = "job-1") {
    return Fence::Make(Storage(), job, Term(term));
  }
  std::unique_ptr<Fence> Made(std::uint64_t term, const std::string& job = "job-1") {
    auto fence = Make(term, job);
    EXPECT_TRUE(fence.ok()) << fence.status().ToString();
    return *std::move(fence);
  }
  static StepLine LineOf(std::uint64_t step, double loss = 2.5) {
    StepLine line;
    line.record.step = protocol::Step(step);
    line.record.loss = loss;
    return line;
  }
  std::vector<std::string> Lines(const std::string& name) {
    const auto content = Storage()->Read(name);
    std::vector<std::string> lines;
    std::string text(content.ok() ? content->text() : std::string_view());
    for (std::size_t end; (end = text.find('\n')) != text.npos; text.erase(0, end + 1)) {
      lines.push_back(text.substr(0, end));
    }
    return lines;
  }

  TemporaryFolder folder_;
};

TEST_F(FenceTest, TheLaterOfTwoTrainersMayWrite) {
  const auto first = Made(1);
  EXPECT_TRUE(first->Check().ok());
  const auto second = Made(2);
  EXPECT_EQ(first->Check().code(), StatusCode::kAborted);
  EXPECT_TRUE(second->Check().ok());
  EXPECT_GT(second->number(), first->number());
}

TEST_F(FenceTest, ATrainerOfALowerTermThatComesLateIsRefused) {
  const auto second = Made(2);
  EXPECT_EQ(Make(1).status().code(), StatusCode::kAborted);
  EXPECT_TRUE(second->Check().ok());
}

TEST_F(FenceTest, ATrainerThatIsStartedAgainInItsTermTakesItsOwnPlace) {
  const auto before = Made(3);
  const auto again = Made(3);
  EXPECT_FALSE(before->Check().ok());
  EXPECT_TRUE(again->Check().ok());
}

TEST_F(FenceTest, AnotherJobThatGoesOnFromTheseCheckpointsBeginsAtItsFirstTerm) {
  const auto before = Made(7, "job-1");
  const auto after = Made(1, "job-2");
  EXPECT_FALSE(before->Check().ok());
  EXPECT_TRUE(after->Check().ok());
}

TEST_F(FenceTest, EntriesDoNotPileUp) {
  for (std::uint64_t term = 1; term <= 20; ++term) Made(term);
  const auto names = Storage()->List("trainers/");
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(names->size(), 1u);
}

TEST_F(FenceTest, AnEntryThatCannotBeReadIsPassedOver) {
  ASSERT_TRUE(Storage()->Write("trainers/00000004.json", Bytes::Copy(std::string("{\"te"))).ok());
  EXPECT_EQ(Made(1)->number(), 5u);
}

TEST_F(FenceTest, AReplacedTrainerAddsNoLineAndCutsNothing) {
  const auto open = [&](Fence* fence, std::uint64_t first_step) {
    auto log =
        RunLog::Open(folder_.path().string(), first_step, [fence] { return fence->Check(); });
    EXPECT_TRUE(log.ok());
    return *std::move(log);
  };
  const auto first = Made(1);
  const auto old_log = open(first.get(), 0);
  EXPECT_TRUE(old_log->Step(LineOf(0)));
  const auto second = Made(2);
  const auto new_log = open(second.get(), RunLog::kKeepAll);
  EXPECT_TRUE(new_log->Step(LineOf(1)));
  EXPECT_FALSE(old_log->Step(LineOf(1, 9.9)));
  EXPECT_FALSE(old_log->Step(LineOf(2, 9.9)));
  old_log->Ledger({LineOf(2).record, {}});
  old_log->Event(protocol::EventKind::kStopping, "of the past");
  EXPECT_EQ(old_log->CutTo(0).code(), StatusCode::kAborted);
  EXPECT_TRUE(old_log->fenced());
  EXPECT_TRUE(new_log->Step(LineOf(2)));
  EXPECT_EQ(Lines("steps.jsonl"),
            (std::vector<std::string>{FormatStep(LineOf(0)), FormatStep(LineOf(1)),
                                      FormatStep(LineOf(2))}));
  EXPECT_TRUE(Lines("ledger.jsonl").empty());
  EXPECT_TRUE(Lines("events.jsonl").empty());
}

TEST_F(FenceTest, WhatIsWrittenBehindACheckGoesToAFileThatIsNotThereAnyMore) {
  auto old_log = RunLog::Open(folder_.path().string(), 0);  // it never hears of the other
  ASSERT_TRUE(old_log.ok());
  EXPECT_TRUE((*old_log)->Step(LineOf(0)));
  const auto new_log = RunLog::Open(folder_.path().string(), RunLog::kKeepAll);
  ASSERT_TRUE(new_log.ok());
  EXPECT_TRUE((*new_log)->Step(LineOf(1)));
  EXPECT_TRUE((*old_log)->Step(LineOf(1, 9.9)));
  EXPECT_EQ(Lines("steps.jsonl"),
            (std::vector<std::string>{FormatStep(LineOf(0)), FormatStep(LineOf(1))}));
}

class StepArchiveTest : public FenceTest {
 protected:
  void Write(StepArchive& archive) {
    for (const StepPiece& piece : archive.TakeChanged()) {
      ASSERT_TRUE(Storage()->Write(piece.name, Bytes::Copy(piece.lines)).ok());
    }
  }
  static void Add(StepArchive& archive, std::uint64_t generation, std::uint64_t begin,
                  std::uint64_t end, double loss) {
    for (std::uint64_t step = begin; step < end; ++step) {
      archive.Add(Generation(generation), step, FormatStep(LineOf(step, loss)));
    }
  }
  /// Of step 0, 1, ...; a gap is a 0.
  std::vector<double> Read() {
    const auto steps = ReadSteps(*Storage());
    EXPECT_TRUE(steps.ok()) << steps.status().ToString();
    std::vector<double> losses;
    for (const auto& [step, line] : *steps) {
      losses.resize(step + 1);
      losses[step] = std::stod(line.substr(line.find("\"loss\":") + 7));
    }
    return losses;
  }
};

TEST_F(StepArchiveTest, TheCurveOfSeveralTrainersIsOne) {
  StepArchive first(Term(1)), second(Term(2));
  Add(first, 0, 0, 3, 1);
  Write(first);
  Add(first, 0, 3, 5, 1);
  Write(first);
  Add(second, 0, 5, 7, 2);
  Write(second);
  EXPECT_EQ(Read(), (std::vector<double>{1, 1, 1, 1, 1, 2, 2}));
}

TEST_F(StepArchiveTest, AGenerationReplacesWhatWasAfterItsCheckpoint) {
  StepArchive archive(Term(1));
  Add(archive, 0, 0, 6, 1);
  Write(archive);
  Add(archive, 1, 2, 4, 2);
  Write(archive);
  EXPECT_EQ(Read(), (std::vector<double>{1, 1, 2, 2}));
}

TEST_F(StepArchiveTest, WhatCouldNotBeWrittenIsNotLostAndNotOlderThanWhatWas) {
  StepArchive archive(Term(1));
  Add(archive, 0, 0, 2, 1);
  auto pieces = archive.TakeChanged();
  EXPECT_FALSE(archive.changed());
  Add(archive, 0, 2, 3, 1);
  archive.Retry(std::move(pieces));
  Write(archive);
  EXPECT_EQ(Read().size(), 3u);

  Add(archive, 0, 3, 4, 1);
  auto late = archive.TakeChanged();
  Add(archive, 0, 4, 600, 1);
  Write(archive);
  archive.Retry(std::move(late));
  Write(archive);
  EXPECT_EQ(Read().size(), 600u);
}

TEST_F(StepArchiveTest, LongRunsAreCutIntoPieces) {
  StepArchive archive(Term(1));
  Add(archive, 0, 0, 1201, 1);
  const auto pieces = archive.TakeChanged();
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[2].name, "steps/g000000-t000001-00001000.jsonl");
  for (const StepPiece& piece : pieces) {
    ASSERT_TRUE(Storage()->Write(piece.name, Bytes::Copy(piece.lines)).ok());
  }
  Add(archive, 0, 1201, 1203, 1);
  EXPECT_EQ(archive.TakeChanged().size(), 1u);
  EXPECT_EQ(Read().size(), 1201u);
}

TEST_F(StepArchiveTest, OtherFilesAndBrokenLinesAreLeftOut) {
  StepArchive archive(Term(1));
  Add(archive, 0, 0, 2, 1);
  Write(archive);
  ASSERT_TRUE(Storage()->Write("steps/notes.txt", Bytes::Copy(std::string("mine"))).ok());
  ASSERT_TRUE(Storage()
                  ->Write("steps/g000000-t000002-00000002.jsonl",
                          Bytes::Copy(std::string("{\"step\":2,\"loss\":1.0}\n{\"step\":3,\"lo")))
                  .ok());
  EXPECT_EQ(Read().size(), 3u);
}

}  // namespace
}  // namespace swarm::trainer
