// Which of several places a reader tries first, and with which keys it opens a region's bucket.
#include "worker/storage/places.h"

#include <gmock/gmock.h>

#include "base/testing/temporary_folder.h"

namespace swarm::storage {
namespace {

using testing::ElementsAre;

api::Spec SpecWith(std::vector<api::RegionStorage> regions) {
  api::Spec spec;
  spec.checkpoint.uri = "s3://home/run";
  spec.storage.endpoint = "https://home.example";
  spec.storage.regions = std::move(regions);
  return spec;
}

std::vector<std::string> UrisOf(const std::vector<Place>& places) {
  std::vector<std::string> uris;
  for (const Place& place : places) uris.push_back(place.uri);
  return uris;
}

class ReadingOrderTest : public testing::Test {
 protected:
  std::vector<std::string> OrderFor(const std::string& region,
                                    const std::map<std::string, double>& round_trips = {}) {
    return UrisOf(InReadingOrder(CheckpointPlaces(spec_), {region, round_trips}));
  }

  api::Spec spec_ = SpecWith({{.region = "eu", .checkpointUri = "s3://eu/run"},
                              {.region = "us", .checkpointUri = "s3://us/run"},
                              {.region = "asia", .checkpointUri = "s3://asia/run"}});
};

TEST_F(ReadingOrderTest, TheCopyOfTheReadersRegionComesFirstAndHomeLast) {
  EXPECT_THAT(OrderFor("us"),
              ElementsAre("s3://us/run", "s3://eu/run", "s3://asia/run", "s3://home/run"));
}

TEST_F(ReadingOrderTest, AReaderOfARegionWithoutACopyTriesThemAsTheManifestListsThem) {
  EXPECT_THAT(OrderFor("mars"),
              ElementsAre("s3://eu/run", "s3://us/run", "s3://asia/run", "s3://home/run"));
}

TEST_F(ReadingOrderTest, RegionsWithAMeasuredRoundTripComeBeforeTheOthersTheNearestFirst) {
  EXPECT_THAT(OrderFor("mars", {{"asia", 0.02}, {"us", 0.1}, {"moon", 0.001}}),
              ElementsAre("s3://asia/run", "s3://us/run", "s3://eu/run", "s3://home/run"));
  EXPECT_THAT(OrderFor("eu", {{"asia", 0.02}, {"eu", 0.5}}),
              ElementsAre("s3://eu/run", "s3://asia/run", "s3://us/run", "s3://home/run"));
}

TEST_F(ReadingOrderTest, AHomeWhoseRegionIsSaidIsAsNearAsItsRegion) {
  spec_.checkpoint.uri = "s3://us/run/";
  EXPECT_THAT(OrderFor("us"), ElementsAre("s3://us/run/", "s3://eu/run", "s3://asia/run"));
  const auto places = CheckpointPlaces(spec_);
  EXPECT_TRUE(places[1].home);
  EXPECT_EQ(places[1].options.endpoint, "https://home.example");
}

TEST(CheckpointPlacesTest, AJobWithoutCopiesHasItsHomeAlone) {
  EXPECT_THAT(UrisOf(CheckpointPlaces(SpecWith({}))), ElementsAre("s3://home/run"));
  EXPECT_THAT(UrisOf(CheckpointPlaces(SpecWith({{.region = "eu", .dataUris = {"s3://eu/text"}}}))),
              ElementsAre("s3://home/run"));
  api::Spec without;
  EXPECT_THAT(CheckpointPlaces(without), ElementsAre());
}

TEST(OpenPlaceTest, AFolderBelowAPlaceIsOpenedWhetherItsUriEndsWithASlashOrNot) {
  const TemporaryFolder folder;
  for (const char* end : {"", "/"}) {
    const Place place{.region = "eu", .uri = "file://" + folder.path().string() + end};
    const auto storage = OpenPlace(place, "step");
    ASSERT_TRUE(storage.ok()) << storage.status().ToString();
    EXPECT_EQ((*storage)->Describe("x"), (folder.path() / "step" / "x").string());
  }
}

}  // namespace
}  // namespace swarm::storage
