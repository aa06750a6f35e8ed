#include "worker/tier/scratch_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "worker/tier/tier.h"

namespace swarm::tier {
namespace {

/// A block is enough everywhere; kernels from 6.1 on say how much less is.
std::size_t AlignmentFor(int descriptor) {
#ifdef STATX_DIOALIGN
  struct statx told{};
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &told) == 0 &&
      (told.stx_mask & STATX_DIOALIGN) != 0 && told.stx_dio_mem_align > 0) {
    return told.stx_dio_mem_align;
  }
#endif
  return kBlock;
}

}  // namespace

ScratchFile::ScratchFile(int descriptor, std::string folder)
    : descriptor_(descriptor),
      name_("a scratch file in " + std::move(folder)),
      memory_alignment_(AlignmentFor(descriptor)) {}

ScratchFile::~ScratchFile() { ::close(descriptor_); }

Status ScratchFile::Grow(std::uint64_t bytes) const {
  const int error = ::posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes));
  if (error == 0) return {};
  return ResourceExhausted(name_ + " cannot have " + std::to_string(bytes >> 20) +
                           " MiB: " + std::strerror(error) + kAnotherFolder);
}

Result<std::unique_ptr<const ScratchFile>> MakeScratchFile(const std::string& folder, int flags) {
  std::string path = folder + "/swarm-scratch-XXXXXX";
  const int descriptor = ::mkostemp(path.data(), flags | O_CLOEXEC);
  if (descriptor < 0) {
    return Unavailable("no scratch file can be made in " + folder + ": " + std::strerror(errno) +
                       kAnotherFolder);
  }
  ::unlink(path.c_str());
  return std::make_unique<const ScratchFile>(descriptor, folder);
}

Result<std::shared_ptr<std::byte>> MapScratchFile(const std::string& folder, std::uint64_t bytes) {
  if (bytes == 0) return std::shared_ptr<std::byte>();
  std::unique_ptr<const ScratchFile> file;
  if (!folder.empty()) {
    ASSIGN_OR_RETURN(file, MakeScratchFile(folder));
    RETURN_IF_ERROR(file->Grow(bytes));
  }
  const int flags = file == nullptr ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags,
                              file == nullptr ? -1 : file->descriptor(), 0);
  if (memory == MAP_FAILED) {
    return ResourceExhausted(std::to_string(bytes >> 20) +
                             " MiB cannot be mapped: " + std::strerror(errno));
  }
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(memory),
                                    [bytes](std::byte* m) { ::munmap(m, bytes); });
}

}  // namespace swarm::tier
