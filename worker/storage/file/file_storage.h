// Storage in a folder of this machine (or one mounted there). The only code that uses POSIX
// files.
#pragma once

#include <memory>
#include <string>

#include "worker/storage/storage.h"

namespace swarm::storage {

/// Storage below `folder`, which the first write creates.
///
/// A write goes to a temporary file beside the target (".NAME.tmp-..."), is synchronised, then
/// renamed (or linked, when it must not replace), and the folder is synchronised. List does not
/// show temporary files; Remove of a name also removes the temporary files that a dead writer left
/// of it.
std::unique_ptr<Storage> OpenFileStorage(std::string folder);

/// The file as memory, read-only. The pages stay valid after the file is removed or replaced by
/// rename. Errors: as Storage::Read.
Result<Bytes> MapFile(const std::string& path);

}  // namespace swarm::storage
