#include "worker/page/log_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace swarm::page {
namespace {

/// Leads to no other folder.
bool IsName(std::string_view text) {
  return !text.empty() && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

}  // namespace

std::optional<std::string> ReadLogTail(const std::string& folder, std::string_view worker,
                                       std::size_t bytes) {
  if (!IsName(worker)) return std::nullopt;
  const std::string path = folder + "/workers/" + std::string(worker) + ".log";
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return std::nullopt;
  struct stat status{};
  std::string text;
  const bool is_file = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const std::size_t size = is_file ? static_cast<std::size_t>(status.st_size) : 0;
  const std::size_t begin = size - std::min(size, bytes);
  if (is_file) {
    text.resize(size - begin);
    const ssize_t n = ::pread(descriptor, text.data(), text.size(), static_cast<off_t>(begin));
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  }
  ::close(descriptor);
  if (!is_file) return std::nullopt;
  if (begin > 0) {
    const std::size_t end = text.find('\n');
    text.erase(0, end == text.npos ? end : end + 1);
  }
  return text;
}

}  // namespace swarm::page
