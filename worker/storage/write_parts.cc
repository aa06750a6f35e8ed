// The one virtual function of Storage that has a body, so the type's own data are in this unit. A
// unit by itself, because modules have it, too.
#include "worker/storage/storage.h"

namespace swarm::storage {

Status Storage::WriteParts(const std::string& name, std::uint64_t size, const ReadPart& read) {
  ASSIGN_OR_RETURN(const Bytes content, read(0, size));
  return Write(name, content);
}

}  // namespace swarm::storage
