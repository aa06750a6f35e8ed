// The spellings of the enumerations in a manifest and in its status: one table for each.
#pragma once

#include <array>
#include <string_view>

#include "api/reason.h"
#include "api/status.h"
#include "api/swarmjob.h"
#include "base/enum_names.h"

namespace swarm {

template <>
struct EnumNames<api::ModelFamily> {  // Hugging Face's model_type
  using E = api::ModelFamily;
  static constexpr auto kNames = NameTable<E>({
      {E::kLlama, "llama"},
      {E::kMistral, "mistral"},
      {E::kQwen2, "qwen2"},
      {E::kQwen3, "qwen3"},
      {E::kSmolLM3, "smollm3"},
      {E::kGemma2, "gemma2"},
      {E::kGemma3, "gemma3_text"},
  });
};

template <>
struct EnumNames<api::RopeType> {  // Hugging Face's rope_type
  using E = api::RopeType;
  static constexpr auto kNames = NameTable<E>({
      {E::kDefault, "default"},
      {E::kLinear, "linear"},
      {E::kDynamic, "dynamic"},
      {E::kYarn, "yarn"},
      {E::kLlama3, "llama3"},
  });
};

template <>
struct EnumNames<api::ModelInit> {
  using E = api::ModelInit;
  static constexpr auto kNames = NameTable<E>({
      {E::kRandom, "Random"},
      {E::kPretrained, "Pretrained"},
  });
};

template <>
struct EnumNames<api::TokenizerKind> {
  using E = api::TokenizerKind;
  static constexpr auto kNames = NameTable<E>({
      {E::kAuto, "Auto"},
      {E::kByte, "Byte"},
      {E::kSentencePiece, "SentencePiece"},
      {E::kHuggingFace, "HuggingFace"},
  });
};

template <>
struct EnumNames<api::OnBadDocument> {
  using E = api::OnBadDocument;
  static constexpr auto kNames = NameTable<E>({
      {E::kFail, "Fail"},
      {E::kSkip, "Skip"},
  });
};

template <>
struct EnumNames<api::DataFormat> {
  using E = api::DataFormat;
  static constexpr auto kNames = NameTable<E>({
      {E::kText, "Text"},
      {E::kPromptCompletion, "PromptCompletion"},
      {E::kChat, "Chat"},
  });
};

template <>
struct EnumNames<api::DocumentView> {
  using E = api::DocumentView;
  static constexpr auto kNames = NameTable<E>({
      {E::kJoined, "Joined"},
      {E::kSeparate, "Separate"},
  });
};

template <>
struct EnumNames<api::TokenType> {
  using E = api::TokenType;
  static constexpr auto kNames = NameTable<E>({
      {E::kUInt16, "UInt16"},
      {E::kUInt32, "UInt32"},
  });
};

template <>
struct EnumNames<api::Precision> {
  using E = api::Precision;
  static constexpr auto kNames = NameTable<E>({
      {E::kFP32, "FP32"},
      {E::kBF16, "BF16"},
      {E::kFP16, "FP16"},
  });
};

template <>
struct EnumNames<api::StepMode> {
  using E = api::StepMode;
  static constexpr auto kNames = NameTable<E>({
      {E::kSync, "Sync"},
      {E::kDelayed, "Delayed"},
      {E::kLocal, "Local"},
  });
};

template <>
struct EnumNames<api::Accumulation> {
  using E = api::Accumulation;
  static constexpr auto kNames = NameTable<E>({
      {E::kFloat, "Float"},
      {E::kExact, "Exact"},
  });
};

template <>
struct EnumNames<api::OptimizerType> {
  using E = api::OptimizerType;
  static constexpr auto kNames = NameTable<E>({
      {E::kAdamW, "AdamW"},
      {E::kLAMB, "LAMB"},
      {E::kMuon, "Muon"},
  });
};

template <>
struct EnumNames<api::ReduceCodec> {
  using E = api::ReduceCodec;
  static constexpr auto kNames = NameTable<E>({
      {E::kNone, "None"},
      {E::kBF16, "BF16"},
      {E::kInt8, "Int8"},
      {E::kInt4, "Int4"},
  });
};

template <>
struct EnumNames<api::ScheduleType> {
  using E = api::ScheduleType;
  static constexpr auto kNames = NameTable<E>({
      {E::kConstant, "Constant"},
      {E::kCosine, "Cosine"},
      {E::kLinear, "Linear"},
      {E::kWSD, "WSD"},
      {E::kInverseSquareRoot, "InverseSquareRoot"},
  });
};

template <>
struct EnumNames<api::DecayShape> {
  using E = api::DecayShape;
  static constexpr auto kNames = NameTable<E>({
      {E::kLinear, "Linear"},
      {E::kCosine, "Cosine"},
      {E::kSquareRoot, "SquareRoot"},
  });
};

template <>
struct EnumNames<api::Residency> {
  using E = api::Residency;
  static constexpr auto kNames = NameTable<E>({
      {E::kResident, "Resident"},
      {E::kOffload, "Offload"},
      {E::kSwap, "Swap"},
  });
};

template <>
struct EnumNames<api::Recompute> {
  using E = api::Recompute;
  static constexpr auto kNames = NameTable<E>({
      {E::kNone, "None"},
      {E::kLayers, "Layers"},
      {E::kFull, "Full"},
  });
};

template <>
struct EnumNames<api::ShardUpdate> {
  using E = api::ShardUpdate;
  static constexpr auto kNames = NameTable<E>({
      {E::kNone, "None"},
      {E::kMoments, "Moments"},
  });
};

template <>
struct EnumNames<api::NumberCodec> {
  using E = api::NumberCodec;
  static constexpr auto kNames = NameTable<E>({
      {E::kNone, "None"},
      {E::kBF16, "BF16"},
      {E::kInt8, "Int8"},
      {E::kInt8Dynamic, "Int8Dynamic"},
  });
};

template <>
struct EnumNames<api::BoundaryCodec> {
  using E = api::BoundaryCodec;
  static constexpr auto kNames = NameTable<E>({
      {E::kNone, "None"},
      {E::kBF16, "BF16"},
      {E::kInt8, "Int8"},
      {E::kInt8Dynamic, "Int8Dynamic"},
      {E::kBottleneck, "Bottleneck"},
      {E::kMaxout, "Maxout"},
      {E::kSubspace, "Subspace"},
      {E::kAnchored, "Anchored"},
  });
};

template <>
struct EnumNames<api::ConditionStatus> {
  using E = api::ConditionStatus;
  static constexpr auto kNames = NameTable<E>({
      {E::kTrue, "True"},
      {E::kFalse, "False"},
      {E::kUnknown, "Unknown"},
  });
};

template <>
struct EnumNames<api::JobState> {
  using E = api::JobState;
  static constexpr auto kNames = NameTable<E>({
      {E::kPending, "Pending"},
      {E::kRejected, "Rejected"},
      {E::kStarting, "Starting"},
      {E::kRunning, "Running"},
      {E::kRecovering, "Recovering"},
      {E::kSuspending, "Suspending"},
      {E::kSuspended, "Suspended"},
      {E::kSucceeded, "Succeeded"},
      {E::kFailed, "Failed"},
  });
};

template <>
struct EnumNames<api::PoolState> {
  using E = api::PoolState;
  static constexpr auto kNames = NameTable<E>({
      {E::kAvailable, "Available"},
      {E::kDry, "Dry"},
      {E::kProbing, "Probing"},
  });
};

template <>
struct EnumNames<api::ClusterState> {
  using E = api::ClusterState;
  static constexpr auto kNames = NameTable<E>({
      {E::kExpected, "Expected"},
      {E::kConnected, "Connected"},
      {E::kAway, "Away"},
  });
};

template <>
struct EnumNames<api::ConditionType> {
  using E = api::ConditionType;
  static constexpr auto kNames = NameTable<E>({
      {E::kAccepted, "Accepted"},
      {E::kReady, "Ready"},
      {E::kCapacityAvailable, "CapacityAvailable"},
      {E::kAdmitted, "Admitted"},
      {E::kSuspended, "Suspended"},
      {E::kSucceeded, "Succeeded"},
      {E::kFailed, "Failed"},
      {E::kBudgetSpent, "BudgetSpent"},
      {E::kClustersConnected, "ClustersConnected"},
  });
};

template <>
struct EnumNames<api::Reason> {
  using E = api::Reason;
  static constexpr auto kNames = NameTable<E>({
      {E::kValid, "Valid"},
      {E::kInvalid, "Invalid"},
      {E::kRejected, "Rejected"},
      {E::kPodRefused, "PodRefused"},
      {E::kPlanned, "Planned"},
      {E::kSuspending, "Suspending"},
      {E::kSuspended, "Suspended"},
      {E::kNotSuspended, "NotSuspended"},
      {E::kResumed, "Resumed"},
      {E::kImageChanged, "ImageChanged"},
      {E::kBudgetLeft, "BudgetLeft"},
      {E::kBudgetLow, "BudgetLow"},
      {E::kBudgetSpent, "BudgetSpent"},
      {E::kQueued, "Queued"},
      {E::kAdmitted, "Admitted"},
      {E::kEvicted, "Evicted"},
      {E::kNotAdmitted, "NotAdmitted"},
      {E::kQueueUnavailable, "QueueUnavailable"},
      {E::kAvailable, "Available"},
      {E::kNoCapacity, "NoCapacity"},
      {E::kQuotaExceeded, "QuotaExceeded"},
      {E::kNotAsked, "NotAsked"},
      {E::kReleased, "Released"},
      {E::kPoolDry, "PoolDry"},
      {E::kPoolReturned, "PoolReturned"},
      {E::kNodeAvoided, "NodeAvoided"},
      {E::kClusterExpected, "ClusterExpected"},
      {E::kEveryClusterConnected, "EveryClusterConnected"},
      {E::kClusterAway, "ClusterAway"},
      {E::kClusterReturned, "ClusterReturned"},
      {E::kTrainerStarting, "TrainerStarting"},
      {E::kTrainerUnschedulable, "TrainerUnschedulable"},
      {E::kTrainerReplaced, "TrainerReplaced"},
      {E::kTrainerPrepares, "TrainerPrepares"},
      {E::kTrainerLost, "TrainerLost"},
      {E::kTrainerFailed, "TrainerFailed"},
      {E::kTrainerPreempted, "TrainerPreempted"},
      {E::kStagesMissing, "StagesMissing"},
      {E::kEveryStageReady, "EveryStageReady"},
      {E::kWorkerMoved, "WorkerMoved"},
      {E::kWorkerLost, "WorkerLost"},
      {E::kWorkerFailed, "WorkerFailed"},
      {E::kWorkerPreempted, "WorkerPreempted"},
      {E::kNotFinished, "NotFinished"},
      {E::kFinished, "Finished"},
      {E::kTrained, "Trained"},
      {E::kSucceeded, "Succeeded"},
      {E::kTooManyFailures, "TooManyFailures"},
      {E::kBadConfiguration, "BadConfiguration"},
      {E::kStorageRefused, "StorageRefused"},
      {E::kImageNotAvailable, "ImageNotAvailable"},
  });
};

}  // namespace swarm
