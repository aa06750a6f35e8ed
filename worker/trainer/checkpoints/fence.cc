#include "worker/trainer/checkpoints/fence.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace swarm::trainer {
namespace {

constexpr std::string_view kPrefix = "trainers/", kSuffix = ".json";
constexpr int kTries = 100;

std::string NameOf(std::uint64_t number) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "trainers/%08llu.json",
                static_cast<unsigned long long>(number));
  return text.data();
}

std::optional<std::uint64_t> NumberOf(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

/// 0: there is no entry.
Result<std::uint64_t> FindLast(storage::Storage& storage) {
  ASSIGN_OR_RETURN(const auto names, storage.List(std::string(kPrefix)));
  std::uint64_t last = 0;
  for (const std::string& name : names) last = std::max(last, NumberOf(name).value_or(0));
  return last;
}

struct Content {
  std::string job;
  protocol::Term term;
};

/// An entry that cannot be read names no trainer.
Result<Content> ReadEntry(storage::Storage& storage, std::uint64_t number) {
  const auto content = storage.Read(NameOf(number));
  if (content.status().code() == StatusCode::kNotFound) return Content();
  if (!content.ok()) return content.status();
  const auto json = nlohmann::json::parse(content->text(), nullptr, /*allow_exceptions=*/false);
  const bool whole = json.is_object() && json.contains("job") && json["job"].is_string() &&
                     json.contains("term") && json["term"].is_number_unsigned();
  if (!whole) return Content();
  return Content{json["job"].get<std::string>(), protocol::Term(json["term"].get<std::uint64_t>())};
}

Status Superseded(const Content& by, const std::string& where) {
  return Status(StatusCode::kAborted, "the trainer of term " + std::to_string(by.term.value) +
                                          " of job " + by.job + " writes to " + where);
}

}  // namespace

Result<std::unique_ptr<Fence>> Fence::Make(std::unique_ptr<storage::Storage> storage,
                                           const std::string& job_uid, protocol::Term term) {
  const std::string content = nlohmann::json{{"job", job_uid}, {"term", term.value}}.dump() + "\n";
  for (int i = 0; i < kTries; ++i) {
    ASSIGN_OR_RETURN(const std::uint64_t last, FindLast(*storage));
    if (last > 0) {
      ASSIGN_OR_RETURN(const Content there, ReadEntry(*storage, last));
      if (there.job == job_uid && there.term > term) {
        return Superseded(there, storage->Describe("trainers"));
      }
    }
    const Status status = storage->WriteIfAbsent(NameOf(last + 1), Bytes::Copy(content));
    if (status.code() == StatusCode::kAlreadyExists) continue;
    if (!status.ok()) return status;
    // Earlier entries mean nothing any more. One that cannot be removed does no harm.
    if (last > 0) (void)storage->Remove(NameOf(last));
    return std::unique_ptr<Fence>(new Fence(std::move(storage), last + 1));
  }
  return Unavailable("other trainers took every number that this one tried in " +
                     storage->Describe("trainers"));
}

Status Fence::Check() {
  ASSIGN_OR_RETURN(const std::uint64_t last, FindLast(*storage_));
  if (last <= number_) return Status();
  const auto by = ReadEntry(*storage_, last);  // for the message only
  return Superseded(by.ok() ? *by : Content(), storage_->Describe("trainers"));
}

}  // namespace swarm::trainer
