#include "worker/page/ledger_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/chained_line.h"

namespace swarm::page {
namespace {

constexpr std::uint64_t kBytesAtOnce = 1u << 16;
/// A longer line is not shown.
constexpr std::uint64_t kLineMax = 4u << 20;
/// Of the end of a line: its digest is in it.
constexpr std::uint64_t kEndBytes = 64;

/// An open file of whole lines, as it is when it is opened.
class Lines {
 public:
  explicit Lines(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status{};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) return;
    size_ = static_cast<std::uint64_t>(status.st_size);
    // An end without a line break is being written.
    size_ = Begin(size_);
  }
  ~Lines() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  std::uint64_t size() const { return size_; }

  /// Where the line begins that `offset` is in. A line break is the end of its line, so of its
  /// successor's first byte the answer is that byte.
  std::uint64_t Begin(std::uint64_t offset) const {
    while (offset > 0) {
      const std::uint64_t count = std::min(offset, kBytesAtOnce);
      const std::string part = Read(offset - count, count);
      const std::size_t last = part.rfind('\n');
      if (last != part.npos) return offset - count + last + 1;
      offset -= count;
    }
    return 0;
  }

  /// Behind the line break that comes first from `offset` on.
  std::uint64_t End(std::uint64_t offset) const {
    while (offset < size_) {
      const std::string part = Read(offset, std::min(size_ - offset, kBytesAtOnce));
      const std::size_t first = part.find('\n');
      if (first != part.npos) return offset + first + 1;
      if (part.empty()) break;
      offset += part.size();
    }
    return size_;
  }

  std::string Read(std::uint64_t offset, std::uint64_t count) const {
    std::string text(count, '\0');
    const ssize_t n = ::pread(descriptor_, text.data(), count, static_cast<off_t>(offset));
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return text;
  }

  /// The step of the line that begins there; nothing: the line is none of a ledger.
  std::optional<std::uint64_t> StepAt(std::uint64_t begin) const {
    constexpr std::string_view kKey = "{\"step\":";
    const std::string head = Read(begin, kKey.size() + 20);
    if (!head.starts_with(kKey)) return std::nullopt;
    std::uint64_t step = 0;
    std::size_t at = kKey.size();
    for (; at < head.size() && head[at] >= '0' && head[at] <= '9'; ++at) {
      step = 10 * step + static_cast<std::uint64_t>(head[at] - '0');
    }
    return at == kKey.size() ? std::nullopt : std::optional(step);
  }

 private:
  const int descriptor_;
  std::uint64_t size_ = 0;
};

/// Where the line of that step begins.
std::optional<std::uint64_t> Find(const Lines& lines, std::uint64_t step) {
  std::uint64_t low = 0, high = lines.size();  // both begin a line
  while (low < high) {
    const std::uint64_t middle = lines.Begin(low + (high - low) / 2);
    const auto found = lines.StepAt(middle);
    if (!found) return std::nullopt;
    if (*found == step) return middle;
    if (*found < step) {
      low = lines.End(middle);
    } else {
      high = middle;
    }
  }
  return std::nullopt;
}

}  // namespace

StepAccount ReadAccount(const std::string& path, std::optional<std::uint64_t> step) {
  const Lines lines(path);
  StepAccount account;
  if (lines.size() == 0) return account;
  const std::uint64_t last = lines.Begin(lines.size() - 1);
  account.first = lines.StepAt(0);
  account.last = lines.StepAt(last);
  const auto begin = step ? Find(lines, *step) : std::optional(last);
  if (!begin) return account;
  const std::uint64_t bytes = lines.End(*begin) - *begin - 1;
  if (bytes > kLineMax) return account;
  account.line = lines.Read(*begin, bytes);
  if (*begin > 0) {
    const std::uint64_t count = std::min(*begin - 1, kEndBytes);
    account.digest_before = ChainDigest(lines.Read(*begin - 1 - count, count));
  }
  return account;
}

}  // namespace swarm::page
