// Where a job's files are: at home, and copies of them near the workers of a region. Which of them
// a reader tries first.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/storage/storage.h"

namespace swarm::storage {

struct Place {
  std::string region = {};  ///< of the workers that are near it; empty: not said
  bool home = false;        ///< it is where files are written; the others are copies of it
  std::string uri = {};
  api::Storage options = {};
  bool operator==(const Place&) const = default;
};

/// Who reads.
struct Reader {
  std::string region = {};
  std::map<std::string, double> round_trips = {};  ///< to regions, in seconds, where measured
};

/// The places of the job's checkpoints, as the manifest lists them. One of them is home: that which
/// spec.checkpoint.uri names, the last one unless a region's entry has the same uri. None for a job
/// without checkpoints.
std::vector<Place> CheckpointPlaces(const api::Spec& spec);

/// Where the data of Data::AllSources()[source] may be read in `region`: its copy, if the region
/// has one, and home behind it.
std::vector<Place> DataPlaces(const api::Spec& spec, std::size_t source, const std::string& region);
/// The same of Data::validationUri, which is not empty.
std::vector<Place> ValidationPlaces(const api::Spec& spec, const std::string& region);

/// The places in the order in which the reader tries them: those of its own region; those to whose
/// regions a round trip was measured, the shortest first; the others as the manifest lists them,
/// and a home whose region is not said behind them.
std::vector<Place> InReadingOrder(std::vector<Place> places, const Reader& reader);

/// The folder below the place; all of it where `folder` is empty. Where the environment has keys
/// that begin with api::CredentialsPrefix of the place's region, those are the place's, and else
/// the plain ones are. Home always has the plain ones. Errors: as Storage::Open.
Result<std::unique_ptr<Storage>> OpenPlace(const Place& place, const std::string& folder = "");

}  // namespace swarm::storage
