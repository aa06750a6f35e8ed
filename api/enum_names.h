// The spelling of the enumerations in a manifest.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "api/status.h"
#include "api/swarmjob.h"

namespace swarm::api {

/// kValues: what may be written for each value. kLater: values of the full manifest that this
/// version of the program does not do yet; they are refused as such, not as misspellings.
template <typename E>
struct EnumNames;

template <>
struct EnumNames<ModelInit> {
  static constexpr std::array kValues{std::pair{ModelInit::kRandom, "Random"},
                                      std::pair{ModelInit::kPretrained, "Pretrained"}};
  static constexpr std::array<std::string_view, 0> kLater{};
};
template <>
struct EnumNames<TokenizerKind> {
  static constexpr std::array kValues{std::pair{TokenizerKind::kByte, "Byte"},
                                      std::pair{TokenizerKind::kSentencePiece, "SentencePiece"}};
  static constexpr std::array<std::string_view, 0> kLater{};
};
template <>
struct EnumNames<TokenType> {
  static constexpr std::array kValues{std::pair{TokenType::kUInt16, "UInt16"},
                                      std::pair{TokenType::kUInt32, "UInt32"}};
  static constexpr std::array<std::string_view, 0> kLater{};
};
template <>
struct EnumNames<Precision> {
  static constexpr std::array kValues{std::pair{Precision::kFP32, "FP32"},
                                      std::pair{Precision::kBF16, "BF16"}};
  static constexpr std::array<std::string_view, 0> kLater{};
};
template <>
struct EnumNames<StepMode> {
  static constexpr std::array kValues{std::pair{StepMode::kSync, "Sync"},
                                      std::pair{StepMode::kDelayed, "Delayed"}};
  static constexpr std::array<std::string_view, 1> kLater{"Local"};
};
template <>
struct EnumNames<Accumulation> {
  static constexpr std::array kValues{std::pair{Accumulation::kFloat, "Float"},
                                      std::pair{Accumulation::kExact, "Exact"}};
  static constexpr std::array<std::string_view, 0> kLater{};
};
template <>
struct EnumNames<OptimizerType> {
  static constexpr std::array kValues{std::pair{OptimizerType::kAdamW, "AdamW"},
                                      std::pair{OptimizerType::kLAMB, "LAMB"}};
  static constexpr std::array<std::string_view, 0> kLater{};
};
template <>
struct EnumNames<ReduceCodec> {
  static constexpr std::array kValues{std::pair{ReduceCodec::kNone, "None"},
                                      std::pair{ReduceCodec::kBF16, "BF16"},
                                      std::pair{ReduceCodec::kInt8, "Int8"}};
  static constexpr std::array<std::string_view, 0> kLater{};
};
template <>
struct EnumNames<ScheduleType> {
  static constexpr std::array kValues{std::pair{ScheduleType::kConstant, "Constant"},
                                      std::pair{ScheduleType::kCosine, "Cosine"},
                                      std::pair{ScheduleType::kLinear, "Linear"}};
  static constexpr std::array<std::string_view, 0> kLater{};
};
template <>
struct EnumNames<Residency> {
  static constexpr std::array kValues{std::pair{Residency::kResident, "Resident"}};
  static constexpr std::array<std::string_view, 1> kLater{"Swap"};
};
template <>
struct EnumNames<NumberCodec> {
  static constexpr std::array kValues{
      std::pair{NumberCodec::kNone, "None"}, std::pair{NumberCodec::kBF16, "BF16"},
      std::pair{NumberCodec::kInt8, "Int8"}, std::pair{NumberCodec::kInt8Dynamic, "Int8Dynamic"}};
  static constexpr std::array<std::string_view, 0> kLater{};
};
template <>
struct EnumNames<BoundaryCodec> {
  static constexpr std::array kValues{std::pair{BoundaryCodec::kNone, "None"},
                                      std::pair{BoundaryCodec::kBF16, "BF16"},
                                      std::pair{BoundaryCodec::kInt8, "Int8"},
                                      std::pair{BoundaryCodec::kInt8Dynamic, "Int8Dynamic"},
                                      std::pair{BoundaryCodec::kBottleneck, "Bottleneck"},
                                      std::pair{BoundaryCodec::kMaxout, "Maxout"},
                                      std::pair{BoundaryCodec::kSubspace, "Subspace"},
                                      std::pair{BoundaryCodec::kAnchored, "Anchored"}};
  static constexpr std::array<std::string_view, 0> kLater{};
};

template <>
struct EnumNames<ConditionStatus> {
  static constexpr std::array kValues{std::pair{ConditionStatus::kTrue, "True"},
                                      std::pair{ConditionStatus::kFalse, "False"},
                                      std::pair{ConditionStatus::kUnknown, "Unknown"}};
  static constexpr std::array<std::string_view, 0> kLater{};
};
template <>
struct EnumNames<JobState> {
  static constexpr std::array kValues{std::pair{JobState::kPending, "Pending"},
                                      std::pair{JobState::kRejected, "Rejected"},
                                      std::pair{JobState::kStarting, "Starting"},
                                      std::pair{JobState::kRunning, "Running"},
                                      std::pair{JobState::kRecovering, "Recovering"},
                                      std::pair{JobState::kSuspending, "Suspending"},
                                      std::pair{JobState::kSuspended, "Suspended"},
                                      std::pair{JobState::kSucceeded, "Succeeded"},
                                      std::pair{JobState::kFailed, "Failed"}};
  static constexpr std::array<std::string_view, 0> kLater{};
};
template <>
struct EnumNames<PoolState> {
  static constexpr std::array kValues{std::pair{PoolState::kAvailable, "Available"},
                                      std::pair{PoolState::kDry, "Dry"},
                                      std::pair{PoolState::kProbing, "Probing"}};
  static constexpr std::array<std::string_view, 0> kLater{};
};

/// The spelling of a value; "" for a number that is no value of the enumeration.
template <typename E>
constexpr std::string_view NameOf(E value) {
  for (const auto& [known, name] : EnumNames<E>::kValues) {
    if (known == value) return name;
  }
  return {};
}

}  // namespace swarm::api
