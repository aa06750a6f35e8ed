#include "operator/objects/resources.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

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

bool IsZero(const json& quantity) { return quantity == 0 || quantity == "0"; }

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

std::string DeviceOf(const json& resources) {
  const json limits = resources.is_object() ? resources.value("limits", json()) : json();
  if (limits.is_object()) {
    for (const auto& [name, quantity] : limits.items()) {
      if (IsAccelerator(name) && !IsZero(quantity)) return "cuda:0";
    }
  }
  return "cpu";
}

}  // namespace swarm::objects
