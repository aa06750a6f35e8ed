// The spellings of the enumerations in a manifest and in its status: one table for each.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "api/reason.h"
#include "api/status.h"
#include "api/swarmjob.h"

namespace swarm::api {

/// kValues: the spelling of each value. kLater: values that a later version of this program is to
/// support; a manifest with one of them is refused for that reason, not as a misspelling.
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

template <>
struct EnumNames<ConditionType> {
  static constexpr std::array kValues{
      std::pair{ConditionType::kAccepted, "Accepted"},
      std::pair{ConditionType::kReady, "Ready"},
      std::pair{ConditionType::kCapacityAvailable, "CapacityAvailable"},
      std::pair{ConditionType::kSuspended, "Suspended"},
      std::pair{ConditionType::kSucceeded, "Succeeded"},
      std::pair{ConditionType::kFailed, "Failed"}};
  static constexpr std::array<std::string_view, 0> kLater{};
};
template <>
struct EnumNames<Reason> {
  static constexpr std::array kValues{std::pair{Reason::kValid, "Valid"},
                                      std::pair{Reason::kInvalid, "Invalid"},
                                      std::pair{Reason::kRejected, "Rejected"},
                                      std::pair{Reason::kPodRefused, "PodRefused"},
                                      std::pair{Reason::kSuspending, "Suspending"},
                                      std::pair{Reason::kSuspended, "Suspended"},
                                      std::pair{Reason::kNotSuspended, "NotSuspended"},
                                      std::pair{Reason::kResumed, "Resumed"},
                                      std::pair{Reason::kAvailable, "Available"},
                                      std::pair{Reason::kNoCapacity, "NoCapacity"},
                                      std::pair{Reason::kQuotaExceeded, "QuotaExceeded"},
                                      std::pair{Reason::kNotAsked, "NotAsked"},
                                      std::pair{Reason::kReleased, "Released"},
                                      std::pair{Reason::kPoolDry, "PoolDry"},
                                      std::pair{Reason::kPoolReturned, "PoolReturned"},
                                      std::pair{Reason::kTrainerStarting, "TrainerStarting"},
                                      std::pair{Reason::kTrainerPrepares, "TrainerPrepares"},
                                      std::pair{Reason::kTrainerLost, "TrainerLost"},
                                      std::pair{Reason::kTrainerFailed, "TrainerFailed"},
                                      std::pair{Reason::kTrainerPreempted, "TrainerPreempted"},
                                      std::pair{Reason::kStagesMissing, "StagesMissing"},
                                      std::pair{Reason::kEveryStageReady, "EveryStageReady"},
                                      std::pair{Reason::kWorkerMoved, "WorkerMoved"},
                                      std::pair{Reason::kWorkerLost, "WorkerLost"},
                                      std::pair{Reason::kWorkerFailed, "WorkerFailed"},
                                      std::pair{Reason::kWorkerPreempted, "WorkerPreempted"},
                                      std::pair{Reason::kNotFinished, "NotFinished"},
                                      std::pair{Reason::kFinished, "Finished"},
                                      std::pair{Reason::kTrained, "Trained"},
                                      std::pair{Reason::kSucceeded, "Succeeded"},
                                      std::pair{Reason::kTooManyFailures, "TooManyFailures"},
                                      std::pair{Reason::kBadConfiguration, "BadConfiguration"},
                                      std::pair{Reason::kStorageRefused, "StorageRefused"},
                                      std::pair{Reason::kImageNotAvailable, "ImageNotAvailable"}};
  static constexpr std::array<std::string_view, 0> kLater{};
};

/// The spelling of a value; "" for a number that is not a value of the enumeration.
template <typename E>
constexpr std::string_view NameOf(E value) {
  for (const auto& [known, name] : EnumNames<E>::kValues) {
    if (known == value) return name;
  }
  return {};
}

}  // namespace swarm::api
