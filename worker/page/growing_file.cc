#include "worker/page/growing_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace swarm::page {
namespace {

constexpr std::size_t kBytesAtOnce = 1u << 20;

}  // namespace

bool GrowingFile::ReadOn(const std::function<void(std::string_view line)>& take) {
  if (fd_ < 0) fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) return true;
  struct stat opened{}, named{};
  if (::fstat(fd_, &opened) != 0 || ::stat(path_.c_str(), &named) != 0) return false;
  if (opened.st_ino != named.st_ino || static_cast<std::uint64_t>(named.st_size) < offset_) {
    return false;
  }
  std::string part(kBytesAtOnce, '\0');
  for (;;) {
    const ssize_t n = ::pread(fd_, part.data(), part.size(), static_cast<off_t>(offset_));
    if (n <= 0) return true;  // an error is asked about again at the next call
    offset_ += static_cast<std::uint64_t>(n);
    partial_.append(part, 0, static_cast<std::size_t>(n));
    std::size_t begin = 0;
    for (std::size_t end; (end = partial_.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      take(std::string_view(partial_).substr(begin, end - begin));
    }
    partial_.erase(0, begin);
    // No line of ours is that long.
    if (partial_.size() > kBytesAtOnce) partial_.clear();
  }
}

void GrowingFile::Rewind() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  offset_ = 0;
  partial_.clear();
}

}  // namespace swarm::page
