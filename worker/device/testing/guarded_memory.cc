#include "worker/device/testing/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/status.h"

namespace swarm::device {

GuardedMemory::GuardedMemory(std::size_t size) : size_(std::max<std::size_t>(size, 1)) {
  const int file = memfd_create("device", MFD_CLOEXEC);
  SWARM_CHECK(file >= 0 && ftruncate(file, static_cast<off_t>(size_)) == 0, "no memory file");
  void* own = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  void* view = mmap(nullptr, size_, PROT_NONE, MAP_SHARED, file, 0);
  close(file);
  SWARM_CHECK(own != MAP_FAILED && view != MAP_FAILED, "no memory of the device");
  own_ = static_cast<std::byte*>(own);
  view_ = static_cast<std::byte*>(view);
}

GuardedMemory::~GuardedMemory() {
  munmap(own_, size_);
  munmap(view_, size_);
}

void GuardedMemory::Open(bool to_write) {
  ++(to_write ? writers_ : readers_);
  Protect();
}

void GuardedMemory::Close(bool to_write) {
  --(to_write ? writers_ : readers_);
  Protect();
}

void GuardedMemory::Protect() const {
  const int rights = writers_ > 0 ? PROT_READ | PROT_WRITE : readers_ > 0 ? PROT_READ : PROT_NONE;
  SWARM_CHECK(mprotect(view_, size_, rights) == 0, "memory that cannot be guarded");
}

}  // namespace swarm::device
