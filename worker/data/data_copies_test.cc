// The trainer reads the data of its region, if they are those of home.
#include "worker/data/data_copies.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/testing/temporary_folder.h"

namespace swarm::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DataCopiesTest : public testing::Test {
 protected:
  DataCopiesTest() {
    spec_.data.uri = folder_ / "home";
    spec_.storage.regions = {{.region = "eu", .dataUris = {folder_ / "eu"}}};
    for (const char* place : {"home", "eu"}) {
      folder_.Put(std::string(place) + "/a.txt", "one");
      folder_.Put(std::string(place) + "/b.txt", "two");
    }
  }
  Result<storage::Place> ChooseIn(const std::string& region) {
    return ChooseData(storage::DataPlaces(spec_, 0, region));
  }
  std::string ChosenIn(const std::string& region) {
    const auto place = ChooseIn(region);
    return place.ok() ? place->uri : place.status().ToString();
  }
  void ExpectRefused(const std::string& why) {
    const auto place = ChooseIn("eu");
    EXPECT_EQ(place.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(place.status().message(), AllOf(HasSubstr(folder_ / "eu"), HasSubstr(why)));
  }

  const TemporaryFolder folder_;
  api::Spec spec_;
};

TEST_F(DataCopiesTest, AReaderTakesTheCopyOfItsRegionAndElseHome) {
  EXPECT_EQ(ChosenIn("eu"), folder_ / "eu");
  EXPECT_EQ(ChosenIn("us"), folder_ / "home");
}

TEST_F(DataCopiesTest, ACopyThatIsNotThereIsPassedOver) {
  std::filesystem::remove_all(folder_ / "eu");
  EXPECT_EQ(ChosenIn("eu"), folder_ / "home");
}

TEST_F(DataCopiesTest, ACopyIsReadWhenHomeIsGone) {
  std::filesystem::remove_all(folder_ / "home");
  EXPECT_EQ(ChosenIn("eu"), folder_ / "eu");
}

TEST_F(DataCopiesTest, ACopyOfOtherDataIsRefused) {
  folder_.Put("eu/b.txt", "TWO");
  ExpectRefused("b.txt holds other bytes than at home");
  folder_.Put("eu/b.txt", "three");
  ExpectRefused("b.txt has 5 bytes there, and 3 at home");
  std::filesystem::rename(folder_ / "eu/b.txt", folder_ / "eu/c.txt");
  ExpectRefused("c.txt is there in place of b.txt");
  std::filesystem::remove(folder_ / "eu/c.txt");
  ExpectRefused("there are 1 files, and 2 at home");
}

TEST_F(DataCopiesTest, ValidationDataHaveACopyOfTheirOwn) {
  spec_.data.validationUri = folder_ / "home/a.txt";
  spec_.storage.regions[0].validationUri = folder_ / "eu/a.txt";
  const auto place = ChooseData(storage::ValidationPlaces(spec_, "eu"));
  ASSERT_TRUE(place.ok()) << place.status().ToString();
  EXPECT_EQ(place->uri, folder_ / "eu/a.txt");
}

}  // namespace
}  // namespace swarm::data
