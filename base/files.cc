#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace swarm {
namespace {

constexpr std::size_t kBytesMax = std::size_t{16} << 20;

Status Failed(const char* what, const std::filesystem::path& path) {
  const int error = errno;
  const std::string message = std::string("cannot ") + what + " " + path.string() + ": " +
                              std::generic_category().message(error);
  return error == ENOENT ? NotFound(message) : Unavailable(message);
}

bool WriteAll(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Result<std::string> ReadFile(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Failed("read", path);
  std::string content;
  char buffer[16384];
  while (true) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const Status status = Failed("read", path);
      ::close(fd);
      return status;
    }
    if (got == 0) break;
    content.append(buffer, static_cast<std::size_t>(got));
    if (content.size() > kBytesMax) {
      ::close(fd);
      return ResourceExhausted(path.string() + " has more than 16 MiB");
    }
  }
  ::close(fd);
  return content;
}

Status WriteFile(const std::filesystem::path& path, std::string_view content, mode_t mode) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  const std::filesystem::path fresh = path.string() + ".tmp" + std::to_string(::getpid());
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (fd < 0) return Failed("write", path);
  bool written = ::fchmod(fd, mode) == 0 && WriteAll(fd, content);
  written = ::close(fd) == 0 && written;
  if (!written || ::rename(fresh.c_str(), path.c_str()) != 0) {
    const Status status = Failed("write", path);
    ::unlink(fresh.c_str());
    return status;
  }
  return Status();
}

}  // namespace swarm
