#include "worker/storage/places.h"

#include <algorithm>
#include <tuple>

#include "api/region_storage.h"
#include "worker/storage/s3/s3_storage.h"

namespace swarm::storage {
namespace {

/// The environment with the keys of a region before those without a prefix.
s3::Environment EnvironmentOf(const std::string& region) {
  return [prefix = api::CredentialsPrefix(region)](const char* name) {
    const auto own = [&](const std::string& key) {
      return s3::ProcessEnvironment((prefix + key).c_str());
    };
    if (const std::string value = own(name); !value.empty()) return value;
    // A token belongs to the keys that it came with.
    const bool others_token = std::string_view(name) == "AWS_SESSION_TOKEN";
    if (others_token && !own("AWS_ACCESS_KEY_ID").empty()) return std::string();
    return s3::ProcessEnvironment(name);
  };
}

api::Storage AccessOf(const api::RegionStorage& entry) {
  return {entry.endpoint, entry.bucketRegion, entry.secretName, {}};
}

/// What is read: the copy of the region, if `copy_in` its entry finds one, and `home`.
template <typename CopyIn>
std::vector<Place> CopyAndHome(const api::Spec& spec, const std::string& region,
                               const CopyIn& copy_in, const std::string& home) {
  std::vector<Place> places;
  for (const api::RegionStorage& entry : spec.storage.regions) {
    const std::string uri = entry.region == region ? copy_in(entry) : "";
    if (uri.empty() || api::IsSameFolder(uri, home)) continue;
    places.push_back({region, /*home=*/false, uri, AccessOf(entry)});
  }
  places.push_back({"", /*home=*/true, home, spec.storage});
  return places;
}

}  // namespace

std::vector<Place> CheckpointPlaces(const api::Spec& spec) {
  std::vector<Place> places;
  if (spec.checkpoint.uri.empty()) return places;
  bool home_listed = false;
  for (const api::RegionStorage& entry : spec.storage.regions) {
    if (entry.checkpointUri.empty()) continue;
    const bool home = api::IsSameFolder(entry.checkpointUri, spec.checkpoint.uri);
    home_listed |= home;
    places.push_back({entry.region, home, home ? spec.checkpoint.uri : entry.checkpointUri,
                      home ? spec.storage : AccessOf(entry)});
  }
  if (!home_listed) places.push_back({"", true, spec.checkpoint.uri, spec.storage});
  return places;
}

std::vector<Place> DataPlaces(const api::Spec& spec, std::size_t source,
                              const std::string& region) {
  const auto copy_in = [source](const api::RegionStorage& entry) {
    return source < entry.dataUris.size() ? entry.dataUris[source] : std::string();
  };
  return CopyAndHome(spec, region, copy_in, spec.data.AllSources()[source].uri);
}

std::vector<Place> ValidationPlaces(const api::Spec& spec, const std::string& region) {
  const auto copy_in = [](const api::RegionStorage& entry) { return entry.validationUri; };
  return CopyAndHome(spec, region, copy_in, spec.data.validationUri);
}

std::vector<Place> InReadingOrder(std::vector<Place> places, const Reader& reader) {
  enum Nearness { kOwn, kMeasured, kListed, kUnknownHome };
  const auto rank = [&](const Place& place) -> std::tuple<Nearness, double> {
    if (place.region.empty()) return {kUnknownHome, 0};
    if (place.region == reader.region) return {kOwn, 0};
    const auto measured = reader.round_trips.find(place.region);
    if (measured != reader.round_trips.end()) return {kMeasured, measured->second};
    return {kListed, 0};
  };
  std::ranges::stable_sort(places, {}, rank);
  return places;
}

Result<std::unique_ptr<Storage>> OpenPlace(const Place& place, const std::string& folder) {
  const std::string uri =
      folder.empty() ? place.uri : place.uri + (place.uri.ends_with('/') ? "" : "/") + folder;
  if (place.home || !uri.starts_with("s3://")) return Storage::Open(uri, place.options);
  ASSIGN_OR_RETURN(s3::S3Options options,
                   s3::MakeS3Options(uri, place.options, EnvironmentOf(place.region)));
  return s3::OpenS3Storage(std::move(options));
}

}  // namespace swarm::storage
