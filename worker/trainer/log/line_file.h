// A file of lines that grows at its end, and that a full disk costs no line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace swarm::trainer {

/// Not thread-safe. One process at a time may append to the file.
class LineFile {
 public:
  /// Lines that wait for room take at most so much memory. A line beyond it is lost, and counted.
  static constexpr std::size_t kWaitingBytesMax = 64u << 20;

  enum class Start { kKeep, kEmpty };

  /// No file: Add and Flush do nothing.
  LineFile() = default;
  /// Opens the file with the first line, and until that succeeds lines wait.
  explicit LineFile(std::string path) : path_(std::move(path)) {}
  /// Opens the file, and makes it if it is missing. Removes an end without a line break, which a
  /// crash or a full disk has left. Errors: kUnavailable, naming the file.
  static Result<LineFile> Open(std::string path, Start start = Start::kKeep);
  ~LineFile();
  LineFile(LineFile&& other) noexcept { *this = std::move(other); }
  LineFile& operator=(LineFile&& other) noexcept;

  explicit operator bool() const { return !path_.empty(); }
  /// Appends `line` and a line break. Lines that cannot be written wait, in their order.
  void Add(std::string_view line);
  /// Tries again to write the lines that wait.
  void Flush();
  /// Whether lines wait, the rest of a partly written one included.
  bool waiting() const { return !waiting_.empty(); }
  /// Drops the lines that wait, because another program writes the file now.
  void Abandon() { waiting_.clear(); }

 private:
  /// Returns 0, or an error number.
  int OpenNow(Start start);
  /// Returns 0 once nothing waits, or an error number.
  int Write();
  void Close();

  std::string path_;
  int descriptor_ = -1;
  std::string waiting_;
  std::uint64_t lost_ = 0;  // lines, since the disk is full
  bool failing_ = false;    // logged once, until all is written
};

}  // namespace swarm::trainer
