#include "worker/trainer/log/tensorboard.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/testing/temporary_folder.h"
#include "worker/trainer/log/event_records.h"
#include "worker/trainer/testing/event_reader.h"

namespace swarm::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using testing::ReadEventFolder;

StepLine Line(std::uint64_t step, double loss) {
  StepLine line{.tokens = 100, .seconds = 0.5};
  line.record.step = protocol::Step(step);
  line.record.loss = loss;
  line.record.grad_norm = 2;
  line.record.learning_rate = 0.25;
  return line;
}

// The bytes with which TensorFlow's own files begin: the length, its checksum, the time's key.
TEST(EventRecordsTest, AFileBeginsWithTheBytesThatReadersKnow) {
  const std::string record = FileVersionRecord(0);
  EXPECT_EQ(record.substr(0, 13), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\x09", 13));
  EXPECT_EQ(record.substr(21, 15),
            "\x1a\x0d"
            "brain.Event:2");
  EXPECT_EQ(record.size(), 8u + 4 + 24 + 4);
}

TEST(TensorBoardTest, PointsAreThoseOfTheSteps) {
  const TemporaryFolder folder;
  EventFiles files(folder.path().string(), {});
  EventBuffer buffer;
  buffer.Step(Line(0, 5), 1000);
  ASSERT_TRUE(files.Append(buffer.Take(), 1000).ok());
  buffer.Step(Line(1, 4), 1001);
  buffer.Validation(protocol::Version(2), 4.5, 1001);
  ASSERT_TRUE(files.Append(buffer.Take(), 1001).ok());
  const auto curves = ReadEventFolder(folder.path().string());
  EXPECT_THAT(curves.at("train/loss"), ElementsAre(Pair(0, 5.0F), Pair(1, 4.0F)));
  EXPECT_THAT(curves.at("train/grad_norm"), ElementsAre(Pair(0, 2.0F), Pair(1, 2.0F)));
  EXPECT_THAT(curves.at("train/learning_rate"), ElementsAre(Pair(0, 0.25F), Pair(1, 0.25F)));
  EXPECT_THAT(curves.at("train/tokens_per_second"), ElementsAre(Pair(0, 200.0F), Pair(1, 200.0F)));
  EXPECT_THAT(curves.at("validation/loss"), ElementsAre(Pair(1, 4.5F)));
}

TEST(TensorBoardTest, ARollbackAndANewTrainerReplaceTheStepsThatTheyRepeat) {
  const TemporaryFolder folder;
  {
    EventFiles files(folder.path().string(), {});
    EventBuffer buffer;
    for (std::uint64_t step = 0; step < 6; ++step) buffer.Step(Line(step, 10), 1000);
    buffer.Validation(protocol::Version(4), 7, 1000);
    ASSERT_TRUE(files.Append(buffer.Take(), 1000).ok());
    for (std::uint64_t step = 4; step < 8; ++step) buffer.Step(Line(step, 20), 1001);
    ASSERT_TRUE(files.Append(buffer.Take(), 1001).ok());
  }
  EventFiles files(folder.path().string(), {});
  EventBuffer buffer;
  // Its clock is late, and its file yet the last.
  for (std::uint64_t step = 7; step < 9; ++step) buffer.Step(Line(step, 30), 900);
  ASSERT_TRUE(files.Append(buffer.Take(), 900).ok());
  const auto curves = ReadEventFolder(folder.path().string());
  EXPECT_THAT(curves.at("train/loss"), ElementsAre(Pair(0, 10.0F), Pair(1, 10.0F), Pair(2, 10.0F),
                                                   Pair(3, 10.0F), Pair(4, 20.0F), Pair(5, 20.0F),
                                                   Pair(6, 20.0F), Pair(7, 30.0F), Pair(8, 30.0F)));
  EXPECT_THAT(curves.at("validation/loss"), ElementsAre(Pair(3, 7.0F)));
}

TEST(TensorBoardTest, PointsWaitUntilTheyCanBeWritten) {
  const TemporaryFolder folder;
  const std::string blocked = folder.Put("blocked", "a file");
  EventFiles files(blocked, {});
  EventBuffer buffer;
  buffer.Step(Line(0, 5), 1000);
  EXPECT_FALSE(files.Append(buffer.Take(), 1000).ok());
  std::filesystem::remove(blocked);
  ASSERT_TRUE(files.Append("", 1001).ok());
  EXPECT_THAT(ReadEventFolder(blocked).at("train/loss"), ElementsAre(Pair(0, 5.0F)));
}

}  // namespace
}  // namespace swarm::trainer
