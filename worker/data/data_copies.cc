#include "worker/data/data_copies.h"

#include <algorithm>

#include "base/hash.h"
#include "base/log.h"

namespace swarm::data {
namespace {

constexpr std::uint64_t kSampleBytes = 64 << 10;
constexpr std::size_t kSampledFiles = 16;

Result<DataFiles> FindIn(const storage::Place& place) {
  return FindDataFiles(place.uri, place.options, OpenerOf(place));
}

Result<Digest> DigestOfEnds(const DataFiles& files, const DataFile& file) {
  const std::uint64_t size = std::min(kSampleBytes, file.size);
  std::vector<Bytes> ends(2);
  ASSIGN_OR_RETURN(ends[0], files.storage->ReadRange(file.name, 0, size));
  ASSIGN_OR_RETURN(ends[1], files.storage->ReadRange(file.name, file.size - size, size));
  return ComputeDigest(ends);
}

/// What distinguishes two lists of files; empty: nothing.
std::string DifferenceOf(const std::vector<DataFile>& copy, const std::vector<DataFile>& home) {
  if (copy.size() != home.size()) {
    return "there are " + std::to_string(copy.size()) + " files, and " +
           std::to_string(home.size()) + " at home";
  }
  for (std::size_t i = 0; i < copy.size(); ++i) {
    if (copy.size() > 1 && copy[i].name != home[i].name) {
      return copy[i].name + " is there in place of " + home[i].name;
    }
    if (copy[i].size != home[i].size) {
      return copy[i].name + " has " + std::to_string(copy[i].size) + " bytes there, and " +
             std::to_string(home[i].size) + " at home";
    }
  }
  return "";
}

/// Errors: those of Storage.
Result<std::string> CompareSamples(const DataFiles& copy, const DataFiles& home) {
  const std::size_t stride = (home.files.size() + kSampledFiles - 1) / kSampledFiles;
  for (std::size_t i = 0; i < home.files.size(); i += stride) {
    ASSIGN_OR_RETURN(const Digest there, DigestOfEnds(copy, copy.files[i]));
    ASSIGN_OR_RETURN(const Digest here, DigestOfEnds(home, home.files[i]));
    if (there != here) return copy.files[i].name + " holds other bytes than at home";
  }
  return std::string();
}

/// As DifferenceOf. Errors: those of FindDataFiles.
Result<std::string> Compare(const DataFiles& copy, const storage::Place& home) {
  ASSIGN_OR_RETURN(const DataFiles original, FindIn(home));
  std::string difference = DifferenceOf(copy.files, original.files);
  if (!difference.empty()) return difference;
  return CompareSamples(copy, original);
}

}  // namespace

OpenStorage OpenerOf(const storage::Place& place) {
  return [place](const std::string& uri, const api::Storage& options) {
    storage::Place folder = place;
    folder.uri = uri;
    folder.options = options;
    return storage::OpenPlace(folder);
  };
}

Result<storage::Place> ChooseData(std::span<const storage::Place> places) {
  const storage::Place& first = places.front();
  const storage::Place& home = places.back();
  if (places.size() == 1) return home;
  const auto copy = FindIn(first);
  if (!copy.ok()) {
    LOG_WARN("the data of region {} are read at home: {}", first.region, copy.status().message());
    return home;
  }
  const auto difference = Compare(*copy, home);
  if (!difference.ok()) {
    LOG_WARN("{} is not compared with {}: {}", first.uri, home.uri, difference.status().message());
  } else if (!difference->empty()) {
    return InvalidArgument(first.uri + " of region " + first.region + " is no copy of " + home.uri +
                           ": " + *difference +
                           "; copy the data again, or leave them out of spec.storage.regions");
  }
  LOG_INFO("data: {} is read in {}, its copy in region {}", home.uri, first.uri, first.region);
  return first;
}

}  // namespace swarm::data
