#include "ctl/run/start_note.h"

#include <sys/utsname.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/machine_memory.h"
#include "base/processors.h"

namespace swarm::ctl {
namespace {

/// The processor's name, as Linux tells it; empty where it does not.
std::string ProcessorName() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "";
}

}  // namespace

Status NoteStart(const std::filesystem::path& folder, const StartedBy& by, bool resume) {
  utsname system{};
  ::uname(&system);
  std::error_code error;
  const nlohmann::ordered_json line = {
      {"time",
       std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()},
      {"version", by.version},
      {"command", by.command},
      {"folder", std::filesystem::current_path(error).string()},
      {"host", system.nodename},
      {"system", std::string(system.sysname) + " " + system.release + " " + system.machine},
      {"processor", ProcessorName()},
      {"processors", UsableProcessors()},
      {"memory_bytes", UsableMemory()}};
  const std::filesystem::path path = folder / "starts.jsonl";
  std::ofstream out(path, resume ? std::ios::app : std::ios::trunc);
  out << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
  out.close();
  return out ? Status() : Unavailable("cannot write " + path.string());
}

}  // namespace swarm::ctl
