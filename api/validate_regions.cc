// The rules of validate.h for the storage of regions.
#include <map>

#include "api/format/judge.h"
#include "api/region_storage.h"

namespace swarm::api {
namespace {

constexpr std::size_t kRegionsMax = 32;
constexpr std::size_t kRegionNameMax = 63;

/// The uris of an entry, each by itself.
void JudgeUris(Judge& judge, const std::string& path, const RegionStorage& entry,
               const Spec& spec) {
  judge.Expect(
      !entry.checkpointUri.empty() || !entry.dataUris.empty() || !entry.validationUri.empty(), path,
      "names no copies", "give checkpointUri, dataUris or validationUri, or leave it out");
  JudgeUri(judge, path + ".checkpointUri", entry.checkpointUri);
  for (std::size_t i = 0; i < entry.dataUris.size(); ++i) {
    const std::string item = path + ".dataUris[" + std::to_string(i) + "]";
    judge.Expect(!entry.dataUris[i].empty(), item, "is empty", "give a file or a folder");
    JudgeUri(judge, item, entry.dataUris[i], UriOf::kData);
  }
  const std::size_t sources = spec.data.AllSources().size();
  judge.Expect(entry.dataUris.empty() || entry.dataUris.size() == sources, path + ".dataUris",
               "has " + Text(std::uint64_t{entry.dataUris.size()}) + " items, and the job has " +
                   Text(std::uint64_t{sources}) + " sources of data",
               "one for each, in their order");
  judge.Expect(entry.validationUri.empty() || !spec.data.validationUri.empty(),
               path + ".validationUri", "copies what data.validationUri does not name",
               "leave it out, or give data.validationUri");
  JudgeUri(judge, path + ".validationUri", entry.validationUri, UriOf::kData);
}

/// The entry of the region where home is has the access of home.
void JudgeHome(Judge& judge, const std::string& path, const RegionStorage& entry,
               const Spec& spec) {
  const bool home = !spec.checkpoint.uri.empty() && !entry.checkpointUri.empty() &&
                    IsSameFolder(entry.checkpointUri, spec.checkpoint.uri);
  const bool plain =
      entry.endpoint.empty() && entry.bucketRegion.empty() && entry.secretName.empty();
  judge.Expect(!home || plain, path, "is checkpoint.uri with an access of its own",
               "spec.storage says how home is reached; leave out endpoint, bucketRegion and"
               " secretName here");
}

}  // namespace

void JudgeRegions(Judge& judge, const Spec& spec) {
  const std::vector<RegionStorage>& regions = spec.storage.regions;
  const std::string all = "spec.storage.regions";
  judge.Expect(regions.size() <= kRegionsMax, all,
               "has " + Text(std::uint64_t{regions.size()}) + " items",
               "at most " + Text(std::uint64_t{kRegionsMax}));
  std::map<std::string, std::string> prefixes;  // to the region that has it
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const RegionStorage& entry = regions[i];
    const std::string path = all + "[" + std::to_string(i) + "]";
    judge.Expect(!entry.region.empty() && entry.region.size() <= kRegionNameMax, path + ".region",
                 "is \"" + entry.region + "\"", "the region of workers, 1 to 63 characters");
    const auto [same, fresh] = prefixes.emplace(CredentialsPrefix(entry.region), entry.region);
    judge.Expect(fresh, path + ".region",
                 same->second == entry.region
                     ? "is there twice: " + entry.region
                     : "has environment variables of the names that " + same->second + " has",
                 "one entry for each region, whose names differ in a letter or digit");
    for (std::size_t other = 0; other < i; ++other) {
      judge.Expect(entry.checkpointUri.empty() ||
                       !IsSameFolder(entry.checkpointUri, regions[other].checkpointUri),
                   path + ".checkpointUri", "is that of " + regions[other].region,
                   "give each region a folder of its own");
    }
    JudgeUris(judge, path, entry, spec);
    JudgeHome(judge, path, entry, spec);
    judge.Expect(entry.secretName.empty() || IsSubdomain(entry.secretName), path + ".secretName",
                 "is \"" + entry.secretName + "\"", "the name of a Secret in the job's namespace");
  }
}

}  // namespace swarm::api
