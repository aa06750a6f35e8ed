#include "ctl/report/changed_fields.h"

#include <nlohmann/json.hpp>

#include "api/parse.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;
using Pointer = json::json_pointer;

void CollectFields(const json& value, const Pointer& at, std::vector<Pointer>* fields) {
  if (!value.is_object() || value.empty()) {
    fields->push_back(at);
    return;
  }
  for (const auto& [key, member] : value.items()) CollectFields(member, at / key, fields);
}

std::vector<Pointer> FieldsOf(const json& spec) {
  std::vector<Pointer> fields;
  for (const auto& [key, member] : spec.items()) CollectFields(member, Pointer() / key, &fields);
  return fields;
}

JobField FieldAt(const json& spec, const Pointer& at) {
  std::string path = at.to_string().substr(1);
  for (char& c : path) {
    if (c == '/') c = '.';
  }
  return {path, spec.at(at).dump(-1, ' ', false, json::error_handler_t::replace)};
}

}  // namespace

std::vector<JobField> AllFields(const api::SwarmJob& job) {
  const json spec = api::ToJson(job).at("spec");
  std::vector<JobField> fields;
  for (const Pointer& at : FieldsOf(spec)) fields.push_back(FieldAt(spec, at));
  return fields;
}

std::vector<JobField> ChangedFields(const api::SwarmJob& job) {
  const json whole = api::ToJson(job);
  const json& spec = whole.at("spec");
  std::vector<JobField> changed;
  for (const Pointer& at : FieldsOf(spec)) {
    json without = whole;
    without.at("spec").at(at.parent_pointer()).erase(at.back());
    const auto read = api::FromJson(without);
    if (!read.ok() || *read != job) changed.push_back(FieldAt(spec, at));
  }
  return changed;
}

}  // namespace swarm::ctl
