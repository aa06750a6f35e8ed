// Data of which a region has a copy: from where they are read, and whether the copy is one.
#pragma once

#include <span>

#include "base/status.h"
#include "worker/data/data_files.h"
#include "worker/storage/places.h"

namespace swarm::data {

/// Opens storages with the keys of the place.
OpenStorage OpenerOf(const storage::Place& place);

/// The first of `places` (storage::DataPlaces) where files of data are found; it logs why another
/// one is of no use. A copy must have as many files as home, with the same names (where there are
/// several) and sizes, and the same digests of the first and the last 64 KiB of up to 16 files; if
/// home does not answer, that is not compared, and logged. Errors: kInvalidArgument (the copy is of
/// other data), and those of FindDataFiles at home.
Result<storage::Place> ChooseData(std::span<const storage::Place> places);

}  // namespace swarm::data
