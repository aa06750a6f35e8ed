// Follows a file of lines that another part of the program writes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace swarm::page {

/// Not thread-safe.
class GrowingFile {
 public:
  explicit GrowingFile(std::string path) : path_(std::move(path)) {}
  ~GrowingFile() { Rewind(); }
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  /// Calls `take` with each whole line that has come since the last call. The file need not exist
  /// yet. False: it was cut or replaced, and what was read is not its beginning; rewind then.
  bool ReadOn(const std::function<void(std::string_view line)>& take);
  /// The next call begins at the first line.
  void Rewind();

 private:
  const std::string path_;
  // Kept open, so that no other file gets the number by which a replaced one is noticed.
  int fd_ = -1;
  std::uint64_t offset_ = 0;  // of the first byte that was not read yet
  std::string partial_;       // a line whose end has not been written yet
};

}  // namespace swarm::page
