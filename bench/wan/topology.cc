#include "bench/wan/topology.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace swarm::wan {
namespace {

using Json = nlohmann::json;

constexpr double kQueueSeconds = 0.1;

Status RefuseUnknown(const Json& object, const std::set<std::string>& known,
                     const std::string& at) {
  if (!object.is_object()) return InvalidArgument(at + ": is no object");
  for (const auto& [key, value] : object.items()) {
    if (!known.contains(key)) return InvalidArgument(at + "." + key + ": there is no such key");
  }
  return Status();
}

Result<std::string> Text(const Json& object, const std::string& key, const std::string& at) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_string() || it->get_ref<const std::string&>().empty()) {
    return InvalidArgument(at + "." + key + ": give a name");
  }
  return it->get<std::string>();
}

Result<double> Number(const Json& object, const std::string& key, double max, double without,
                      const std::string& at) {
  const auto it = object.find(key);
  if (it == object.end()) return without;
  const double value = it->is_number() ? it->get<double>() : -1;
  if (!(value >= 0 && value <= max)) {
    return InvalidArgument(at + "." + key + ": must be a number from 0 to " + Json(max).dump());
  }
  return value;
}

Result<LinkOptions> ReadOptions(const Json& link, const std::string& at) {
  LinkOptions options;
  ASSIGN_OR_RETURN(const double megabits, Number(link, "rateMbps", 1e6, 0, at));
  ASSIGN_OR_RETURN(const double milliseconds, Number(link, "oneWayMs", 1e5, 0, at));
  ASSIGN_OR_RETURN(options.loss, Number(link, "loss", 1, 0, at));
  options.bits_per_second = megabits * 1e6;
  options.delay = FromSeconds(milliseconds * 1e-3);
  ASSIGN_OR_RETURN(const double queue, Number(link, "queueBytes", 1e12,
                                              options.bits_per_second / 8 * kQueueSeconds, at));
  options.queue_bytes = static_cast<std::uint64_t>(queue);
  return options;
}

bool Fits(const std::string& end, const Topology::Node& node) {
  return end == "*" || end == node.name || end == node.region;
}

Status ReadNode(const Json& json, const std::string& at, Topology& topology) {
  RETURN_IF_ERROR(RefuseUnknown(json, {"name", "region"}, at));
  Topology::Node node;
  ASSIGN_OR_RETURN(node.name, Text(json, "name", at));
  ASSIGN_OR_RETURN(node.region, Text(json, "region", at));
  // It becomes part of a path.
  if (node.name.find('/') != node.name.npos || node.name.front() == '.') {
    return InvalidArgument(at + ".name: '" + node.name + "' is no name of a namespace");
  }
  for (const Topology::Node& other : topology.nodes) {
    if (other.name == node.name) return InvalidArgument(at + ".name: is that of another node too");
  }
  topology.nodes.push_back(std::move(node));
  return Status();
}

Status ReadLink(const Json& json, const std::string& at, Topology& topology) {
  RETURN_IF_ERROR(
      RefuseUnknown(json, {"between", "rateMbps", "oneWayMs", "loss", "queueBytes"}, at));
  const auto between = json.find("between");
  const bool pair = between != json.end() && between->is_array() && between->size() == 2 &&
                    (*between)[0].is_string() && (*between)[1].is_string();
  if (!pair) return InvalidArgument(at + ".between: give two regions, nodes or \"*\"");
  const std::string a = (*between)[0].get<std::string>(), b = (*between)[1].get<std::string>();
  ASSIGN_OR_RETURN(const LinkOptions options, ReadOptions(json, at));
  bool used = false;
  for (std::size_t i = 0; i < topology.nodes.size(); ++i) {
    for (std::size_t j = 0; j < topology.nodes.size(); ++j) {
      const Topology::Node &from = topology.nodes[i], &to = topology.nodes[j];
      if (i == j || !((Fits(a, from) && Fits(b, to)) || (Fits(b, from) && Fits(a, to)))) continue;
      topology.links[i][j] = options;
      used = true;
    }
  }
  return used ? Status() : InvalidArgument(at + ".between: no two nodes are meant by this");
}

Result<Topology> Read(const Json& json) {
  RETURN_IF_ERROR(RefuseUnknown(json, {"nodes", "links"}, "topology"));
  const Json nodes = json.value("nodes", Json()), links = json.value("links", Json::array());
  if (!nodes.is_array() || nodes.size() < 2 || nodes.size() > kNodesMax) {
    return InvalidArgument("nodes: give 2 to " + std::to_string(kNodesMax));
  }
  if (!links.is_array()) return InvalidArgument("links: is no list");
  Topology topology;
  for (const Json& node : nodes) {
    const std::string at = "nodes[" + std::to_string(topology.nodes.size()) + "]";
    RETURN_IF_ERROR(ReadNode(node, at, topology));
  }
  const std::size_t count = topology.nodes.size();
  topology.links.assign(count, std::vector<LinkOptions>(count));
  std::size_t index = 0;
  for (const Json& link : links) {
    RETURN_IF_ERROR(ReadLink(link, "links[" + std::to_string(index++) + "]", topology));
  }
  return topology;
}

}  // namespace

Result<Topology> ParseTopology(std::string_view json) {
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return InvalidArgument("the topology is no JSON");
  return Read(parsed);
}

}  // namespace swarm::wan
