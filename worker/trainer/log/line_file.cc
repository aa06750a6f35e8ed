#include "worker/trainer/log/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace swarm::trainer {
namespace {

/// The length of the file without an end that has no line break; -1: errno says why not.
off_t WholeLines(int descriptor) {
  off_t end = ::lseek(descriptor, 0, SEEK_END);
  std::array<char, 4096> block;
  while (end > 0) {
    const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(block.size()));
    const ssize_t count =
        ::pread(descriptor, block.data(), static_cast<std::size_t>(end - begin), begin);
    if (count < 0) return -1;
    const std::size_t last =
        std::string_view(block.data(), static_cast<std::size_t>(count)).rfind('\n');
    if (last != std::string_view::npos) return begin + static_cast<off_t>(last) + 1;
    end = begin;
  }
  return end;
}

}  // namespace

Result<LineFile> LineFile::Open(std::string path, Start start) {
  LineFile file(std::move(path));
  if (const int error = file.OpenNow(start); error != 0) {
    return Unavailable(file.path_ + ": " + std::strerror(error));
  }
  return file;
}

LineFile::~LineFile() { Close(); }

LineFile& LineFile::operator=(LineFile&& other) noexcept {
  Close();
  path_ = std::exchange(other.path_, {});
  descriptor_ = std::exchange(other.descriptor_, -1);
  waiting_ = std::exchange(other.waiting_, {});
  lost_ = std::exchange(other.lost_, 0);
  failing_ = std::exchange(other.failing_, false);
  return *this;
}

int LineFile::OpenNow(Start start) {
  const int truncate = start == Start::kEmpty ? O_TRUNC : 0;
  const int opened =
      ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | truncate, 0644);
  if (opened < 0) return errno;
  const off_t whole = WholeLines(opened);
  if (whole < 0 || ::ftruncate(opened, whole) != 0) {
    const int error = errno;
    ::close(opened);
    return error;
  }
  descriptor_ = opened;
  return 0;
}

void LineFile::Close() {
  Flush();
  if (waiting()) {
    lost_ += static_cast<std::uint64_t>(std::ranges::count(waiting_, '\n'));
    LOG_ERROR("{}: the last {} lines could not be written", path_, lost_);
  }
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void LineFile::Add(std::string_view line) {
  if (path_.empty()) return;
  if (waiting_.size() + line.size() >= kWaitingBytesMax) {
    ++lost_;
  } else {
    waiting_.append(line).push_back('\n');
  }
  Flush();
}

void LineFile::Flush() {
  if (!waiting()) return;
  if (const int error = Write(); error == 0) {
    if (std::exchange(failing_, false)) {
      LOG_INFO("{} is written again; lines lost meanwhile: {}", path_, std::exchange(lost_, 0));
    }
  } else if (!std::exchange(failing_, true)) {
    LOG_WARN("{} cannot be written: {}; its lines wait in memory, up to {} MiB", path_,
             std::strerror(error), kWaitingBytesMax >> 20);
  }
}

int LineFile::Write() {
  if (descriptor_ < 0) {
    if (const int error = OpenNow(Start::kKeep); error != 0) return error;
  }
  std::size_t written = 0;
  int error = 0;
  while (error == 0 && written < waiting_.size()) {
    const ssize_t count =
        ::write(descriptor_, waiting_.data() + written, waiting_.size() - written);
    if (count > 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  waiting_.erase(0, written);
  return error;
}

}  // namespace swarm::trainer
