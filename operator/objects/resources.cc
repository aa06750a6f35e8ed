#include "operator/objects/resources.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "api/format/quantity.h"
#include "operator/names/names.h"

namespace swarm::objects {
namespace {

using nlohmann::json;

constexpr int kThreadsMax = 1024;

// A quantity of processors: 4, "4", "2.5", "2500m". Other suffixes (none makes sense) are no
// number.
std::optional<double> ReadProcessors(const json& quantity) {
  if (quantity.is_number()) return quantity.get<double>();
  if (!quantity.is_string()) return std::nullopt;
  std::string_view text = quantity.get_ref<const std::string&>();
  const bool thousandths = text.ends_with('m');
  if (thousandths) text.remove_suffix(1);
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return thousandths ? number / 1000 : number;
}

std::optional<double> ReadBytes(const json& quantity) {
  if (quantity.is_number()) return quantity.get<double>();
  if (!quantity.is_string()) return std::nullopt;
  return api::ParseQuantity(quantity.get_ref<const std::string&>());
}

// A number of devices: 4 or "4". Kubernetes accepts no other form for what cannot be divided.
std::uint64_t ReadDevices(const json& quantity) {
  if (quantity.is_number_unsigned()) return quantity.get<std::uint64_t>();
  if (!quantity.is_string()) return 0;
  const std::string& text = quantity.get_ref<const std::string&>();
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? number : 0;
}

bool IsAccelerator(std::string_view resource) {
  constexpr std::array<std::string_view, 3> kVendors{"nvidia.com", "amd.com", "gpu.intel.com"};
  const std::size_t slash = resource.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view domain = resource.substr(0, slash);
  return std::find(kVendors.begin(), kVendors.end(), domain) != kVendors.end() ||
         resource.find("gpu") != std::string_view::npos;
}

}  // namespace

int ThreadsOf(const json& resources) {
  for (const char* part : {"/limits/cpu", "/requests/cpu"}) {
    const json::json_pointer at(part);
    if (!resources.is_object() || !resources.contains(at)) continue;
    const std::optional<double> processors = ReadProcessors(resources[at]);
    if (processors && *processors > 0) {
      return static_cast<int>(std::min<double>(std::ceil(*processors), kThreadsMax));
    }
  }
  return 1;
}

std::uint64_t MemoryOf(const json& resources) {
  constexpr double kMost = 0x1p60;
  for (const char* part : {"/limits/memory", "/requests/memory"}) {
    const json::json_pointer at(part);
    if (!resources.is_object() || !resources.contains(at)) continue;
    const std::optional<double> bytes = ReadBytes(resources[at]);
    if (bytes && *bytes > 0) return static_cast<std::uint64_t>(std::min(*bytes, kMost));
  }
  return 0;
}

std::vector<std::string> DevicesOf(const json& resources) {
  const json limits = resources.is_object() ? resources.value("limits", json()) : json();
  std::uint64_t count = 0;
  if (limits.is_object()) {
    for (const auto& [name, quantity] : limits.items()) {
      if (!IsAccelerator(name)) continue;
      const std::uint64_t given = ReadDevices(quantity);
      count = std::max(count, name.ends_with("/gpu") ? given : std::min<std::uint64_t>(given, 1));
    }
  }
  if (count == 0) return {"cpu"};
  std::vector<std::string> devices;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(count, names::kPodWorkersMax); ++i) {
    devices.push_back("cuda:" + std::to_string(i));
  }
  return devices;
}

}  // namespace swarm::objects
