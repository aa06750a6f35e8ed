#include "ctl/run/start_note.h"

#include <sys/utsname.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <system_error>

#include "base/files.h"
#include "base/hash.h"
#include "base/machine_memory.h"
#include "base/processors.h"
#include "ctl/local_path.h"

namespace swarm::ctl {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// The processor's name, as Linux tells it; empty where it does not.
std::string ProcessorName() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "";
}

/// Beyond it, reading the data would delay the start.
constexpr std::uintmax_t kDigestBytesMax = std::uintmax_t{256} << 20;

OrderedJson DescribeData(const api::Data& data) {
  std::set<std::string> uris;
  for (const api::DataSource& source : data.AllSources()) uris.insert(source.uri);
  uris.insert(data.validationUri);  // if it is empty, it is no path
  OrderedJson described = OrderedJson::array();
  for (const std::string& uri : uris) {
    const auto path = LocalPath(uri);
    std::error_code error;
    if (!path || !std::filesystem::is_regular_file(*path, error)) continue;
    const std::uintmax_t size = std::filesystem::file_size(*path, error);
    if (error) continue;
    OrderedJson file = {{"uri", uri}, {"bytes", size}};
    if (size <= kDigestBytesMax) {
      const Result<std::string> content = ReadFile(*path);
      if (content.ok()) file["digest"] = ComputeDigest(std::as_bytes(std::span(*content))).Hex();
    }
    described.push_back(std::move(file));
  }
  return described;
}

}  // namespace

Status NoteStart(const std::filesystem::path& folder, const StartedBy& by, const api::Data& data,
                 bool resume) {
  utsname system{};
  ::uname(&system);
  std::error_code error;
  const OrderedJson line = {
      {"time",
       std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()},
      {"version", by.version},
      {"command", by.command},
      {"folder", std::filesystem::current_path(error).string()},
      {"host", system.nodename},
      {"system", std::string(system.sysname) + " " + system.release + " " + system.machine},
      {"processor", ProcessorName()},
      {"processors", UsableProcessors()},
      {"memory_bytes", UsableMemory()},
      {"data", DescribeData(data)}};
  const std::filesystem::path path = folder / "starts.jsonl";
  std::ofstream out(path, resume ? std::ios::app : std::ios::trunc);
  out << line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) << "\n";
  out.close();
  return out ? Status() : Unavailable("cannot write " + path.string());
}

}  // namespace swarm::ctl
