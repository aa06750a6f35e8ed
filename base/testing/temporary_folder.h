// For tests: a folder that is removed with its content at the end of the test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "base/status.h"

namespace swarm {

/// A new, empty folder below the system's folder for temporary files. The destructor removes it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "swarm-XXXXXX").string();
    SWARM_CHECK(::mkdtemp(pattern.data()) != nullptr, "no temporary folder");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// The path of `name` below the folder. The file need not exist.
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

  /// Writes a file below the folder and returns its path. Makes the folders between.
  std::string Put(std::string_view name, std::string_view content) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream out(file, std::ios::binary);
    out << content;
    out.close();
    SWARM_CHECK(out.good(), "cannot write " + file.string());
    return file.string();
  }
  /// The content of a file below the folder; empty if there is no such file.
  std::string Get(std::string_view name) const {
    std::ostringstream content;
    content << std::ifstream(path_ / name, std::ios::binary).rdbuf();
    return content.str();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace swarm
