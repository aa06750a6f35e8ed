#include "planner/link_study.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "api/validate.h"

namespace swarm::planner {
namespace {

constexpr std::array kManners = {Manner::kSyncReplicas, Manner::kSyncPipeline,
                                 Manner::kDelayedReplicas, Manner::kDelayedPipeline,
                                 Manner::kLocal};
/// From one rate that is looked at to the next, as a factor.
constexpr double kLongestStride = 1.6;
/// The rate of an overtaking is known up to this factor.
constexpr double kPrecise = 1.002;
/// What is undone before the rate is so many times as high says nothing.
constexpr double kMoment = 1.1;

/// The rates, and so many between them that none is far from the next.
std::vector<double> Strides(std::span<const double> rates) {
  std::vector<double> all = {rates.front()};
  for (std::size_t i = 1; i < rates.size(); ++i) {
    const double ratio = rates[i] / rates[i - 1];
    const double strides = std::ceil(std::log(ratio) / std::log(kLongestStride) - 1e-9);
    for (double n = 1; n < strides; ++n) {
      all.push_back(rates[i - 1] * std::pow(ratio, n / strides));
    }
    all.push_back(rates[i]);
  }
  return all;
}

/// Replicas of a stage, if all machines are used.
std::uint64_t ReplicasOf(const Request& request) {
  std::uint64_t machines = request.job.spec.workers.replicas;
  if (request.open.replicas) {
    machines = 0;
    for (const Machines& group : request.fleet.groups) machines += group.count;
  }
  const std::uint64_t stages = request.open.stages ? 1 : request.job.spec.pipeline.stages;
  return std::max<std::uint64_t>(1, machines / stages);
}

/// The job's training, in another step mode.
api::Training TrainingIn(api::StepMode mode, const Request& request) {
  api::Training training = request.job.spec.training;
  if (training.stepMode == mode) return training;
  if (training.stepMode == api::StepMode::kLocal) {
    training.globalBatchSize /= training.local.innerSteps;
    training.local = {};
  } else if (mode == api::StepMode::kLocal) {
    const std::uint64_t replicas = ReplicasOf(request);
    const std::uint64_t microbatches = training.globalBatchSize / training.microbatchSize;
    training.local.microbatches = std::max<std::uint64_t>(1, microbatches / replicas);
    training.globalBatchSize = training.local.innerSteps * training.local.microbatches * replicas *
                               training.microbatchSize;
  }
  training.stepMode = mode;
  return training;
}

/// What Validate says of a valid job whose training is another.
std::vector<api::FieldError> ErrorsOf(api::SwarmJob job) {
  auto errors = api::ValidateFit(job);
  if (!job.spec.model.uri.empty()) job.spec.model.config = {};  // as the user wrote it
  for (api::FieldError& error : api::Validate(job)) errors.push_back(std::move(error));
  return errors;
}

api::StepMode ModeOf(Manner manner) {
  switch (manner) {
    case Manner::kSyncReplicas:
    case Manner::kSyncPipeline:
      return api::StepMode::kSync;
    case Manner::kDelayedReplicas:
    case Manner::kDelayedPipeline:
      return api::StepMode::kDelayed;
    case Manner::kLocal:
      break;
  }
  return api::StepMode::kLocal;
}

/// The request to train in that manner alone; or why not.
struct Asked {
  Request request;
  std::string refusal;
};

Asked AskFor(Manner manner, const Request& request) {
  Asked asked{request, ""};
  api::Spec& spec = asked.request.job.spec;
  spec.training = TrainingIn(ModeOf(manner), request);
  asked.request.open.step_mode = false;
  if (const auto errors = ErrorsOf(asked.request.job); !errors.empty()) {
    asked.refusal = api::ToString(errors.front());
    return asked;
  }
  const bool replicas = manner == Manner::kSyncReplicas || manner == Manner::kDelayedReplicas;
  const bool pipeline = manner == Manner::kSyncPipeline || manner == Manner::kDelayedPipeline;
  if (pipeline) asked.request.stages_min = 2;
  if (replicas) asked.request.stages_max = 1;
  const std::uint64_t stages = spec.pipeline.stages;
  if (!request.open.stages && ((replicas && stages > 1) || (pipeline && stages == 1))) {
    asked.refusal =
        "the manifest has " + std::to_string(stages) + (stages == 1 ? " stage" : " stages");
  }
  return asked;
}

std::string ChangesText(const std::vector<std::string>& changes) {
  std::string text = "it does not fit";
  bool first = true;
  for (const std::string& change : changes) {
    text += (std::exchange(first, false) ? "; it would with " : ", or ") + change;
  }
  return text;
}

class Study {
 public:
  Study(const Request& request, std::span<const double> rates);
  LinkStudy Take();

 private:
  void AddManner(Manner manner, double rate);
  /// Of a curve at a rate; searched once.
  const Plan& BestAt(std::size_t curve, double rate);
  /// So that all curves have the rate.
  void SearchAt(double rate) {
    for (std::size_t i = 0; i < requests_.size(); ++i) BestAt(i, rate);
  }
  double Worth(std::size_t curve, double rate) {
    return BestAt(curve, rate).prediction.tokens_per_second;
  }
  /// Whether `a` counts as faster than `b`, which is less plain.
  bool IsAhead(std::size_t a, std::size_t b, double rate) {
    return Worth(a, rate) >= Worth(b, rate) * (1 - kPlanTie);
  }
  /// Between two neighbours, the lowest rate at which `what` is no longer what it was at the lower.
  template <typename Call>
  double ChangeOf(double low, double high, const Call& what);
  void FindLeads();
  /// Whether a plainer curve, but for `other`, is at the same place.
  bool IsHidden(std::size_t curve, std::size_t other, double rate);
  void FindOvertakings(std::size_t a, std::size_t b);
  /// The other rates were steps of the search.
  void KeepWhatIsShown();

  const Request& request_;
  const std::vector<double> rates_;
  std::vector<Request> requests_;  // of the curves
  LinkStudy result_;
};

Study::Study(const Request& request, std::span<const double> rates)
    : request_(request), rates_(Strides(rates)) {}

LinkStudy Study::Take() {
  for (const Manner manner : kManners) AddManner(manner, rates_.front());
  if (result_.curves.empty()) return std::move(result_);
  FindLeads();
  for (std::size_t b = 1; b < result_.curves.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) FindOvertakings(a, b);
  }
  std::ranges::stable_sort(result_.overtakings, {}, &Overtaking::rate);
  KeepWhatIsShown();
  return std::move(result_);
}

void Study::AddManner(Manner manner, double rate) {
  Asked asked = AskFor(manner, request_);
  if (!asked.refusal.empty()) {
    result_.left_out.push_back({manner, asked.refusal});
    return;
  }
  Request at = asked.request;
  at.fleet = WithLines(at.fleet, rate);
  const Plans found = FindPlans(at, 1);
  if (found.plans.empty()) {
    result_.left_out.push_back({manner, ChangesText(found.changes)});
    return;
  }
  result_.curves.push_back({manner, {{rate, found.plans.front()}}});
  requests_.push_back(std::move(asked.request));
}

const Plan& Study::BestAt(std::size_t curve, double rate) {
  auto& plans = result_.curves[curve].plans;
  if (const auto known = plans.find(rate); known != plans.end()) return known->second;
  Request at = requests_[curve];
  at.fleet = WithLines(at.fleet, rate);
  // What fits at one rate fits at all: room is no matter of links.
  return plans.emplace(rate, FindPlans(at, 1).plans.front()).first->second;
}

template <typename Call>
double Study::ChangeOf(double low, double high, const Call& what) {
  const auto before = what(low);
  while (high > low * kPrecise) {
    const double middle = std::sqrt(low * high);
    (what(middle) == before ? low : high) = middle;
  }
  return high;
}

void Study::FindLeads() {
  const auto leader = [&](double rate) {
    SearchAt(rate);
    return LeaderAt(result_, rate);
  };
  auto& leads = result_.leads;
  leads.push_back({rates_.front(), leader(rates_.front())});
  for (std::size_t i = 1; i < rates_.size(); ++i) {
    // There may be another leader between two.
    for (double from = rates_[i - 1]; leader(from) != leader(rates_[i]);) {
      from = ChangeOf(from, rates_[i], leader);
      const std::size_t next = leader(from);
      const bool undone = leads.size() > 1 && leads[leads.size() - 2].curve == next &&
                          from < leads.back().rate * kMoment;
      if (undone) {
        leads.pop_back();
      } else if (leads.back().curve != next) {
        leads.push_back({from, next});
      }
    }
  }
}

bool Study::IsHidden(std::size_t curve, std::size_t other, double rate) {
  for (std::size_t plainer = 0; plainer < curve; ++plainer) {
    const double ratio = Worth(curve, rate) / Worth(plainer, rate);
    if (plainer != other && ratio <= 1 / (1 - kPlanTie) && ratio >= 1 - kPlanTie) return true;
  }
  return false;
}

void Study::FindOvertakings(std::size_t a, std::size_t b) {
  const auto ahead = [&](double rate) { return IsAhead(a, b, rate); };
  std::vector<Overtaking> found;
  for (std::size_t i = 1; i < rates_.size(); ++i) {
    const bool comes = ahead(rates_[i]);
    if (comes == ahead(rates_[i - 1])) continue;
    const double rate = ChangeOf(rates_[i - 1], rates_[i], ahead);
    if (!found.empty() && rate < found.back().rate * kMoment) {
      found.pop_back();
    } else {
      found.push_back({rate, comes ? b : a, comes ? a : b, comes});
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    Overtaking& at = found[i];
    // Whether `a` comes near and no further, until `b` is faster again.
    for (const double rate : rates_) {
      const bool within = rate >= at.rate && (i + 1 == found.size() || rate < found[i + 1].rate);
      if (within && Worth(a, rate) * (1 - kPlanTie) > Worth(b, rate)) at.equal = false;
    }
    if (IsHidden(a, b, at.rate) || IsHidden(b, a, at.rate)) continue;
    SearchAt(at.rate);
    result_.overtakings.push_back(at);
  }
}

void Study::KeepWhatIsShown() {
  std::set<double> shown(rates_.begin(), rates_.end());
  for (const Lead& lead : result_.leads) shown.insert(lead.rate);
  for (const Overtaking& at : result_.overtakings) shown.insert(at.rate);
  for (MannerCurve& curve : result_.curves) {
    std::erase_if(curve.plans, [&](const auto& plan) { return !shown.contains(plan.first); });
  }
}

}  // namespace

Fleet WithLines(Fleet fleet, double rate) {
  for (Machines& group : fleet.groups) group.upload = group.download = rate;
  for (Link& link : fleet.links) link.rate = 0;
  return fleet;
}

std::size_t LeaderAt(const LinkStudy& study, double rate) {
  const auto worth = [&](const MannerCurve& curve) {
    return curve.plans.at(rate).prediction.tokens_per_second;
  };
  double most = 0;
  for (const MannerCurve& curve : study.curves) most = std::max(most, worth(curve));
  std::size_t leader = 0;
  while (worth(study.curves[leader]) < most * (1 - kPlanTie)) ++leader;
  return leader;
}

LinkStudy StudyLinks(const Request& request, std::span<const double> rates) {
  return Study(request, rates).Take();
}

}  // namespace swarm::planner
