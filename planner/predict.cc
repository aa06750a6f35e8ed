#include "planner/predict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "api/model/memory.h"
#include "planner/short_pipeline.h"
#include "planner/stage_memory.h"
#include "planner/swapping.h"
#include "worker/protocol/grid/reduce_grid.h"
#include "worker/protocol/routing/router.h"

namespace swarm::planner {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
constexpr double kSecondsPerHour = 3600;
/// A stage that computes for a smaller share of its time waits for its disks.
constexpr double kComputes = 0.95;

double Number(std::uint64_t n) { return static_cast<double>(n); }
double OrUnlimited(double rate) { return rate > 0 ? rate : kUnlimited; }

std::uint64_t TokensOf(const api::Spec& spec) {
  return spec.training.microbatchSize * spec.training.sequenceLength;
}

/// The part of the microbatches that goes from one region to another, or stays in one, between two
/// stages, and how fast the connections there are.
struct Crossing {
  double share = 0;
  double connections = 0;
  const Link* link = nullptr;
  bool within = false;  ///< the part that stays in a region
};

/// The links between the regions of a fleet's groups, and from the trainer's to them.
class GroupLinks {
 public:
  explicit GroupLinks(const Fleet& fleet) : groups_(fleet.groups.size()) {
    for (const Machines& from : fleet.groups) {
      for (const Machines& to : fleet.groups) {
        between_.push_back(LinkOf(fleet.links, from.region, to.region));
      }
    }
    for (const Machines& to : fleet.groups) {
      from_trainer_.push_back(LinkOf(fleet.links, fleet.trainer_region, to.region));
    }
  }
  const Link& Between(std::size_t from, std::size_t to) const {
    return between_[from * groups_ + to];
  }
  const Link& FromTrainer(std::size_t to) const { return from_trainer_[to]; }

 private:
  std::size_t groups_;
  std::vector<Link> between_, from_trainer_;
};

/// What a swapped stage waits for.
Limit LimitOf(SwapWait wait, bool in_memory) {
  switch (wait) {
    case SwapWait::kCompute:
      return Limit::kCompute;
    case SwapWait::kTier:
      return in_memory ? Limit::kHostMemory : Limit::kDisk;
    case SwapWait::kLink:
      return Limit::kDeviceLink;
    case SwapWait::kUpdate:
      return Limit::kUpdate;
  }
  return Limit::kDisk;
}

class Predictor {
 public:
  Predictor(const Way& way, const ModelCosts& model, const Fleet& fleet)
      : spec_(way.spec),
        way_(way),
        model_(model),
        fleet_(fleet),
        links_(fleet),
        stages_(way.runs.size()),
        sync_(!spec_.training.overlaps_steps()),
        swaps_(spec_.pipeline.residency == api::Residency::kSwap),
        microbatches_(Number(spec_.training.globalBatchSize / spec_.training.microbatchSize)),
        traffic_(TrafficOf(spec_.pipeline.boundary,
                           static_cast<std::uint64_t>(spec_.model.config.hidden_size),
                           TokensOf(spec_))) {}

  /// `roomy`: as if any number of microbatches could be in flight.
  Prediction Take(bool roomy);

 private:
  struct Stage {
    double machines = 0;
    double rate = 0;               ///< microbatches a second of its devices
    double seconds = 0;            ///< mean of a device on a microbatch
    double computes = 0;           ///< microbatches a second, if nothing waited for disks
    double update_seconds = 0;     ///< at the end of a step, when a device computes nothing else
    Limit updates = Limit::kDisk;  ///< for what an update waits
    std::optional<SwapPrediction> swap;  ///< of the slowest group
    std::vector<double> by_group;        ///< seconds of a device on a microbatch
    double tasks = 1;                    ///< microbatches that a device has at once
    double bytes = 0;                    ///< sent of a microbatch; as many are received
    double line = 0;                     ///< bytes a second of its machines' lines
    double reduce_bytes = 0;             ///< sent by one machine for a sum
    double reduce_seconds = 0;           ///< of a sum alone on the lines
    double reduce_dollars = 0;           ///< what of a sum crosses between regions costs
    std::vector<Crossing> crossings;     ///< to the next stage
    double transfer = 0, way = 0;        ///< of a microbatch to the next stage: bytes, delay
    double back_transfer = 0;
    std::vector<std::pair<std::size_t, StageMemory>> memory;  ///< by group that it has machines of
    std::uint64_t in_flight = 0;
  };

  bool SameRegion(std::size_t a, std::size_t b) const {
    return fleet_.groups[a].region == fleet_.groups[b].region;
  }
  double Seconds(std::size_t stage, std::size_t group) const { return all_[stage].by_group[group]; }
  template <typename Call>
  void EachGroup(std::size_t stage, const Call& call) const {
    for (std::size_t g = 0; g < fleet_.groups.size(); ++g) {
      if (way_.machines[stage][g] > 0) call(g, Number(way_.machines[stage][g]));
    }
  }
  /// Of a device on a microbatch; in a stage that is swapped, with its disk.
  double TakeSeconds(std::size_t stage, std::size_t group);
  void Devices();
  void Connections();
  void Reduces();
  /// A sum of a stage that is in several regions, which sum within each first.
  void ReduceOverRegions(std::size_t stage, double gradients);
  bool IsInOneRegion(std::size_t stage) const;
  void InFlight();
  /// Of the room for few in flight.
  void BoundByRoom();
  double StepWork(std::size_t stage) const;
  /// `own`: of latency_, what one microbatch of the `seconds` takes.
  void Bound(double seconds, double own, Limit limit, std::size_t stage);
  /// Microbatches a second, where few may be in flight.
  double ShortRate() const;
  double TrainerWay() const;
  /// A microbatch is held from its drawing until the trainer hears that all workers are done.
  double Stay() const { return latency_ + 2 * TrainerWay(); }
  void Step(bool roomy);
  void Losses();
  void Money();

  const api::Spec& spec_;
  const Way& way_;
  const ModelCosts& model_;
  const Fleet& fleet_;
  const GroupLinks links_;
  const std::size_t stages_;
  const bool sync_;  ///< steps do not overlap
  const bool swaps_;
  const double microbatches_;
  const BoundaryTraffic traffic_;
  std::vector<Stage> all_;
  bool short_of_room_ = false;  ///< for the microbatches in flight that hide the network
  /// From the first forward of a microbatch to its last backward, on an idle swarm.
  double latency_ = 0;
  Prediction result_;
};

Prediction Predictor::Take(bool roomy) {
  all_.resize(stages_);
  result_.boundary_bytes = traffic_.forward;
  Devices();
  Connections();
  Reduces();
  InFlight();
  Step(roomy);
  Losses();
  Money();
  return std::move(result_);
}

double Predictor::TakeSeconds(std::size_t s, std::size_t g) {
  const Run run = way_.runs[s];
  const Machines& group = fleet_.groups[g];
  const double seconds = Number(TokensOf(spec_)) * model_.Flops(run) / group.flops;
  all_[s].computes += Number(way_.machines[s][g]) / seconds;
  const auto update = [&](double update_seconds, Limit limit) {
    if (update_seconds > all_[s].update_seconds) {
      all_[s].update_seconds = update_seconds;
      all_[s].updates = limit;
    }
    result_.update_seconds = std::max(result_.update_seconds, update_seconds);
  };
  if (!swaps_) {
    if (IsOffloaded(spec_, model_, group, run)) {
      update(OffloadedUpdateSeconds(model_.ParametersOf(run), spec_.training.precision, group),
             Limit::kUpdate);
    }
    return seconds;
  }
  const auto swapping = SwapStage(spec_, model_, group, run);
  if (!swapping) return seconds;
  all_[s].tasks = std::max(all_[s].tasks, Number(swapping->tasks));
  const bool local = spec_.training.stepMode == api::StepMode::kLocal;
  double machines = 0;
  EachGroup(s, [&](std::size_t, double count) { machines += count; });
  const double microbatches =
      local ? Number(spec_.training.local.microbatches) : std::max(1.0, microbatches_ / machines);
  const SwapTime passing =
      SwappedSeconds(*swapping, seconds, model_.ForwardShare(), microbatches, group);
  const SwappedLocal steps = local ? SwappedLocalSeconds(*swapping, group) : SwappedLocal();
  const SwapTime passes{microbatches * passing.seconds, passing.wait,
                        microbatches * passing.tier_seconds};
  const SwapTime updating = local ? SwapTime{steps.round_seconds, SwapWait::kTier}
                            : swapping->passes_beside && !sync_
                                ? SwappedUpdateBeside(*swapping, passes, group)
                                : SwappedUpdateSeconds(*swapping, group);
  SwapPrediction swap{.segments = swapping->segments.size(),
                      .tasks = swapping->tasks,
                      .in_memory = swapping->in_memory,
                      .compute_seconds = microbatches * seconds,
                      .pass_seconds = passes.seconds + steps.inner_seconds,
                      .waits = LimitOf(passing.wait, swapping->in_memory),
                      .update_seconds = updating.seconds,
                      .updates = LimitOf(updating.wait, swapping->in_memory)};
  update(swap.update_seconds, swap.updates);
  const double taken = swap.pass_seconds / microbatches;
  if (!all_[s].swap || swap.pass_seconds > all_[s].swap->pass_seconds) all_[s].swap = swap;
  return taken;
}

void Predictor::Devices() {
  for (std::size_t s = 0; s < stages_; ++s) {
    Stage& stage = all_[s];
    stage.by_group.resize(fleet_.groups.size());
    EachGroup(s, [&](std::size_t g, double count) {
      stage.by_group[g] = TakeSeconds(s, g);
      stage.machines += count;
      stage.rate += count / Seconds(s, g);
      const Machines& group = fleet_.groups[g];
      stage.line += count * std::min(OrUnlimited(group.upload), OrUnlimited(group.download));
    });
    stage.seconds = stage.machines / stage.rate;
    EachGroup(s, [&](std::size_t g, double) {
      stage.memory.emplace_back(
          g, MemoryOf(spec_, model_, fleet_.groups[g], way_.runs[s], stage.machines < 2));
    });
    // Sent and received bytes are as many within a pipeline; at its ends the larger counts.
    const double sent = (s + 1 < stages_ ? traffic_.forward : 0) + (s > 0 ? traffic_.backward : 0);
    const double taken = (s > 0 ? traffic_.forward : 0) + (s + 1 < stages_ ? traffic_.backward : 0);
    stage.bytes = std::max(sent, taken);
  }
}

void Predictor::Connections() {
  for (std::size_t s = 0; s + 1 < stages_; ++s) {
    Stage& stage = all_[s];
    const Stage& next = all_[s + 1];
    // Shares of the work by region, of those that are left to be joined.
    struct Place {
      std::size_t group = 0;  // the first in the region
      double share = 0, machines = 0;
    };
    const auto places = [&](std::size_t at) {
      std::vector<Place> list;
      EachGroup(at, [&](std::size_t g, double count) {
        auto place =
            std::ranges::find_if(list, [&](const Place& p) { return SameRegion(p.group, g); });
        if (place == list.end()) place = list.insert(list.end(), {g});
        place->share += count / Seconds(at, g) / all_[at].rate;
        place->machines += count;
      });
      return list;
    };
    std::vector<Place> from = places(s), to = places(s + 1);
    const auto join = [&](bool same) {
      for (Place& a : from) {
        for (Place& b : to) {
          const double share = std::min(a.share, b.share);
          if (SameRegion(a.group, b.group) != same || share <= 1e-12) continue;
          stage.crossings.push_back(
              {share, std::max({1.0, a.machines * share / a.share, b.machines * share / b.share}),
               &links_.Between(a.group, b.group), same});
          a.share -= share;
          b.share -= share;
        }
      }
    };
    join(true);
    join(false);
    const double own_line = stage.line / stage.machines, next_line = next.line / next.machines;
    for (const Crossing& crossing : stage.crossings) {
      const double rate = std::min({own_line, next_line, OrUnlimited(crossing.link->rate)});
      stage.transfer += crossing.share * traffic_.forward / rate;
      stage.back_transfer += crossing.share * traffic_.backward / rate;
      stage.way += crossing.share * crossing.link->round_trip_seconds / 2;
    }
  }
  for (const Stage& stage : all_) {
    latency_ += stage.tasks * stage.seconds + stage.transfer + stage.back_transfer + 2 * stage.way;
  }
}

void Predictor::Reduces() {
  for (std::size_t s = 0; s < stages_; ++s) {
    Stage& stage = all_[s];
    const auto participants = static_cast<std::size_t>(stage.machines);
    if (participants < 2) continue;
    const double gradients =
        ReduceBytes(spec_.training) * Number(model_.ParametersOf(way_.runs[s]).trained);
    if (!IsInOneRegion(s)) {
      ReduceOverRegions(s, gradients);
      continue;
    }
    const protocol::ReduceGrid grid(participants, protocol::ChooseRows(participants));
    const protocol::ReduceGrid::Load load = grid.LoadOf(0);
    stage.reduce_bytes = gradients * load.sent;
    const auto peers = static_cast<double>(load.peers);
    double rate = kUnlimited, way = 0;
    EachGroup(s, [&](std::size_t g, double) {
      const Machines& own = fleet_.groups[g];
      rate = std::min({rate, OrUnlimited(own.upload), OrUnlimited(own.download)});
      EachGroup(s, [&](std::size_t h, double) {
        const Link& link = links_.Between(g, h);
        rate = std::min(rate, peers * OrUnlimited(link.rate));
        way = std::max(way, link.round_trip_seconds / 2);
      });
    });
    stage.reduce_seconds = stage.reduce_bytes / rate + grid.ways().within * way;
    result_.reduce_seconds = std::max(result_.reduce_seconds, stage.reduce_seconds);
  }
}

bool Predictor::IsInOneRegion(std::size_t s) const {
  std::optional<std::size_t> first;
  bool one = true;
  EachGroup(s, [&](std::size_t g, double) {
    if (!first) first = g;
    one = one && SameRegion(*first, g);
  });
  return one;
}

void Predictor::ReduceOverRegions(std::size_t s, double gradients) {
  Stage& stage = all_[s];
  std::vector<protocol::PlacedMember> members;
  std::map<protocol::WorkerId, std::size_t> group_of;
  EachGroup(s, [&](std::size_t g, double count) {
    for (double i = 0; i < count; ++i) {
      const protocol::WorkerId id(std::to_string(members.size()));
      members.push_back({.id = id, .region = fleet_.groups[g].region});
      group_of[id] = g;
    }
  });
  const protocol::Seating seating = protocol::SeatByPlace(members);
  const protocol::ReduceGrid grid(members.size(), seating.rows, seating.regions);
  double seconds = 0, within_way = 0, across_way = 0, bytes = 0;
  const auto groups_at = [&](std::size_t g, bool same, const auto& call) {
    EachGroup(s, [&](std::size_t h, double) {
      if (SameRegion(g, h) == same) call(links_.Between(g, h));
    });
  };
  for (std::size_t seat = 0; seat < members.size(); ++seat) {
    const std::size_t g = group_of.at(seating.seats[seat]);
    const protocol::ReduceGrid::Load load = grid.LoadOf(seat);
    double within_rate = kUnlimited, across_rate = kUnlimited;
    groups_at(g, true, [&](const Link& link) {
      within_rate = std::min(within_rate, OrUnlimited(link.rate));
      within_way = std::max(within_way, link.round_trip_seconds / 2);
    });
    groups_at(g, false, [&](const Link& link) {
      across_rate = std::min(across_rate, OrUnlimited(link.rate));
      across_way = std::max(across_way, link.round_trip_seconds / 2);
    });
    const Machines& own = fleet_.groups[g];
    const double line = std::min(OrUnlimited(own.upload), OrUnlimited(own.download));
    const auto near = static_cast<double>(load.peers - load.peers_across);
    const auto far = static_cast<double>(load.peers_across);
    bytes += gradients * load.sent;
    seconds = std::max(seconds, gradients * load.sent / line);
    if (near > 0) {
      const double sent = gradients * (load.sent - load.across);
      seconds = std::max(seconds, sent / (near * within_rate));
    }
    if (far > 0) seconds = std::max(seconds, gradients * load.across / (far * across_rate));
  }
  for (std::size_t piece = 0; grid.regions() > 1 && piece < grid.pieces(); ++piece) {
    const std::size_t owner = grid.OwnerOf(piece);
    const double of_piece = gradients / static_cast<double>(grid.pieces());
    for (std::size_t region = 0; region < grid.regions(); ++region) {
      const std::size_t head = grid.HeadOf(region, piece);
      if (head == owner) continue;
      // The region's sum to the owner, and the sum of all back.
      result_.reduce_region_bytes += 2 * of_piece;
      stage.reduce_dollars +=
          2 * of_piece *
          links_.Between(group_of.at(seating.seats[head]), group_of.at(seating.seats[owner]))
              .dollars_per_byte;
    }
  }
  stage.reduce_bytes = bytes / stage.machines;
  const protocol::ReduceGrid::Ways ways = grid.ways();
  // Too many rows for regions: all sum as one, and any way may be between two regions.
  const double within = grid.regions() == 1 ? std::max(within_way, across_way) : within_way;
  stage.reduce_seconds = seconds + ways.across * across_way + ways.within * within;
  result_.reduce_seconds = std::max(result_.reduce_seconds, stage.reduce_seconds);
}

void Predictor::InFlight() {
  std::vector<std::uint64_t> replicas;
  for (const Stage& stage : all_) replicas.push_back(static_cast<std::uint64_t>(stage.machines));
  const auto unmeasured = protocol::ComputeInFlightLimits(replicas);
  const double stay = Stay();
  constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t wanted = 0,
                room = spec_.pipeline.inFlightMax > 0 ? spec_.pipeline.inFlightMax : kAny;
  for (std::size_t s = 0; s < stages_; ++s) {
    Stage& stage = all_[s];
    stage.in_flight =
        protocol::ComputeInFlightLimit(stage.seconds, stay, unmeasured[s], stages_, kAny);
    stage.in_flight = std::max(stage.in_flight, static_cast<std::uint64_t>(stage.tasks));
    wanted = std::max(wanted, stage.in_flight);
    for (const auto& [g, memory] : stage.memory) {
      room = std::min(room, InFlightRoom(memory, fleet_.groups[g]));
    }
  }
  short_of_room_ = room < wanted;
  if (short_of_room_ || spec_.pipeline.inFlightMax > 0) {
    result_.in_flight_max = room;
  } else if (wanted > protocol::kInFlightPerStage * stages_) {
    result_.in_flight_max = wanted;
  } else {
    return;
  }
  for (Stage& stage : all_) stage.in_flight = std::min(stage.in_flight, *result_.in_flight_max);
}

void Predictor::Bound(double seconds, double own, Limit limit, std::size_t stage) {
  // Where steps do not overlap, the pipeline fills and drains around the longest part.
  const double fill = sync_ ? std::max(0.0, latency_ - own) : 0;
  if (seconds + fill <= result_.bound_seconds + result_.fill_seconds) return;
  result_.bound_seconds = seconds;
  result_.fill_seconds = fill;
  result_.limit = limit;
  result_.limit_stage = stage;
}

/// The devices' time for a step's microbatches, which are whole where steps do not overlap.
double Predictor::StepWork(std::size_t stage) const {
  double seconds = microbatches_ / all_[stage].rate;
  if (!sync_) return seconds;
  constexpr double kRounding = 1e-9;
  while (true) {
    double done = 0, next = kUnlimited;
    EachGroup(stage, [&](std::size_t g, double count) {
      const double each = Seconds(stage, g);
      const double whole = std::floor(seconds / each + kRounding);
      done += count * whole;
      next = std::min(next, (whole + 1) * each);
    });
    if (done >= microbatches_) return seconds;
    seconds = next;
  }
}

double Predictor::TrainerWay() const {
  double way = 0;
  for (std::size_t s = 0; s < stages_; ++s) {
    EachGroup(s, [&](std::size_t g, double) {
      way = std::max(way, links_.FromTrainer(g).round_trip_seconds / 2);
    });
  }
  return way;
}

double Predictor::ShortRate() const {
  std::vector<ShortStage> stages;
  for (std::size_t s = 0; s < stages_; ++s) {
    const Stage& stage = all_[s];
    const double forward = stage.seconds * model_.ForwardShare();
    const auto line_of = [&](std::size_t to, double bytes) {
      const Stage& other = all_[to];
      return bytes / std::min(stage.line / stage.machines, other.line / other.machines);
    };
    stages.push_back({.replicas = static_cast<std::uint64_t>(stage.machines),
                      .forward = forward,
                      .backward = stage.seconds - forward,
                      .transfer = stage.transfer,
                      .back_transfer = s > 0 ? all_[s - 1].back_transfer : 0,
                      .line = s + 1 < stages_ ? line_of(s + 1, traffic_.forward) : 0,
                      .back_line = s > 0 ? line_of(s - 1, traffic_.backward) : 0,
                      .way = stage.way,
                      .back_way = s > 0 ? all_[s - 1].way : 0});
  }
  return ShortPipelineRate(stages, *result_.in_flight_max);
}

void Predictor::BoundByRoom() {
  if (!swaps_) {
    const double rate = ShortRate();
    Bound(microbatches_ / rate, 1 / rate, Limit::kInFlight, 0);
  } else if (stages_ == 1) {
    return;  // those that pass the stage together may be all that there is room for
  }
  const double stay = Stay();
  for (std::size_t s = 0; s < stages_; ++s) {
    const double held = Number(all_[s].in_flight) * all_[s].machines;
    Bound(microbatches_ * stay / held, latency_, Limit::kInFlight, s);
  }
}

void Predictor::Step(bool roomy) {
  for (std::size_t s = 0; s < stages_; ++s) {
    const Stage& stage = all_[s];
    // Where steps overlap, an update comes between their passes.
    const double work = StepWork(s) + (sync_ ? 0 : stage.update_seconds);
    const double rate = sync_ ? stage.rate : microbatches_ / work;
    const bool waits = rate < kComputes * stage.computes;
    Bound(work, stage.tasks * stage.seconds,
          waits && stage.swap ? stage.swap->waits : Limit::kCompute, s);
    // Where steps overlap, the sums of one share the lines with the next one's microbatches.
    const double sums = sync_ ? 0 : stage.machines * stage.reduce_bytes;
    const double transfers = stage.transfer + stage.back_transfer;
    Bound((microbatches_ * stage.bytes + sums) / stage.line, transfers, Limit::kLine, s);
    for (const Crossing& crossing : stage.crossings) {
      // The two directions do not hinder each other. A connection carries whole microbatches.
      const double bytes = std::max(traffic_.forward, traffic_.backward);
      double carried = microbatches_ * crossing.share / crossing.connections;
      if (sync_) carried = std::ceil(carried);
      Bound(carried * bytes / OrUnlimited(crossing.link->rate), transfers, Limit::kConnection, s);
    }
  }
  if (short_of_room_ && !roomy) BoundByRoom();
  // A fold is reported, a sum is ordered, its digest reported, and the commit sent.
  result_.commit_seconds = 4 * TrainerWay();
  if (sync_) {
    // A stage begins its sum when it has folded all: the later ones earlier.
    double exposed = 0, earlier = 0;
    for (const Stage& stage : all_) {
      exposed = std::max(exposed, stage.reduce_seconds - earlier);
      earlier += stage.seconds * (1 - model_.ForwardShare()) + stage.back_transfer + stage.way;
    }
    result_.step_seconds = result_.bound_seconds + result_.fill_seconds + exposed +
                           result_.commit_seconds + result_.update_seconds;
    if (result_.update_seconds > result_.bound_seconds + result_.fill_seconds) {
      const auto slowest = std::ranges::max_element(all_, {}, &Stage::update_seconds);
      result_.limit = slowest->updates;
      result_.limit_stage = static_cast<std::size_t>(slowest - all_.begin());
    }
  } else {
    // A step begins with the commit of the one before the last: two steps a round.
    const double round =
        result_.bound_seconds + latency_ + result_.reduce_seconds + result_.commit_seconds;
    Bound(round / 2, 0, Limit::kStepLatency, result_.limit_stage);
    // A sum begins with the commit of the step before: its digest is reported, and it is ordered.
    for (std::size_t s = 0; s < stages_; ++s) {
      if (all_[s].reduce_seconds <= 0) continue;
      Bound(all_[s].reduce_seconds + result_.commit_seconds / 2, 0, Limit::kSum, s);
    }
    result_.step_seconds = result_.bound_seconds;
  }
  const double step = result_.step_seconds;
  result_.tokens_per_second = microbatches_ * Number(TokensOf(spec_)) / step;
  for (std::size_t s = 0; s < stages_; ++s) {
    const Stage& stage = all_[s];
    StagePrediction of;
    of.run = way_.runs[s];
    of.machines = static_cast<std::uint64_t>(stage.machines);
    of.parameters = model_.ParametersOf(of.run).all();
    of.token_flops = model_.Flops(of.run);
    of.busy_share = microbatches_ / stage.computes / step;
    of.bytes_per_second =
        (microbatches_ * stage.bytes / stage.machines + stage.reduce_bytes) / step;
    of.in_flight = stage.in_flight;
    of.swap = stage.swap;
    for (const auto& [g, memory] : stage.memory) {
      of.memory_bytes = std::max(of.memory_bytes, memory.Held(of.in_flight));
    }
    result_.stages.push_back(of);
  }
}

/// Machines that are away, and recoveries. A lost machine's share of the open steps is computed
/// again by the other replicas; without any, the job goes back to its last checkpoint.
void Predictor::Losses() {
  const double step = result_.step_seconds;
  const double open = sync_ ? 0.5 : 1;
  double stalled = 0, away = 0, machines = 0;
  for (std::size_t s = 0; s < stages_; ++s) {
    const Stage& stage = all_[s];
    const Parameters parameters = model_.ParametersOf(way_.runs[s]);
    const double copy = Number(api::CopyBytes(spec_, parameters.trained, parameters.frozen)) /
                        (stage.line / stage.machines);
    EachGroup(s, [&](std::size_t g, double count) {
      const Machines& group = fleet_.groups[g];
      const double rate = count * group.losses_per_hour / kSecondsPerHour;
      double cost = fleet_.detect_seconds;
      if (stage.machines > 1) {
        cost += open * step / stage.machines;
      } else {
        cost += Number(spec_.checkpoint.intervalSteps) / 2 * step + copy;
      }
      stalled += rate * cost;
      const double gone = group.return_seconds > 0 ? group.return_seconds + copy : 0;
      away += count * (1 - 1 / (1 + group.losses_per_hour / kSecondsPerHour * gone));
      machines += count;
    });
  }
  const double kept = (1 - away / machines) / (1 + stalled);
  result_.lost_share = 1 - kept;
  result_.tokens_per_second *= kept;
}

void Predictor::Money() {
  double dollars = 0;
  for (std::size_t s = 0; s < stages_; ++s) {
    EachGroup(s, [&](std::size_t g, double count) {
      dollars += count * fleet_.groups[g].dollars_per_hour;
    });
    dollars += all_[s].reduce_dollars / result_.step_seconds * kSecondsPerHour;
    for (const Crossing& crossing : all_[s].crossings) {
      const double bytes = microbatches_ * crossing.share * (traffic_.forward + traffic_.backward);
      if (!crossing.within) result_.boundary_region_bytes += bytes;
      dollars += bytes / result_.step_seconds * kSecondsPerHour * crossing.link->dollars_per_byte;
    }
  }
  result_.dollars_per_hour = dollars;
  if (dollars > 0) {
    result_.tokens_per_dollar = result_.tokens_per_second * kSecondsPerHour / dollars;
  }
}

}  // namespace

Prediction Predict(const Way& way, const ModelCosts& model, const Fleet& fleet) {
  return Predictor(way, model, fleet).Take(/*roomy=*/false);
}

Prediction PredictRoomy(const Way& way, const ModelCosts& model, const Fleet& fleet) {
  return Predictor(way, model, fleet).Take(/*roomy=*/true);
}

std::string LimitText(const Prediction& p) { return LimitText(p.limit, p.limit_stage); }

std::string LimitText(Limit limit, std::size_t number) {
  const std::string stage = "stage " + std::to_string(number);
  switch (limit) {
    case Limit::kCompute:
      return "the devices of " + stage;
    case Limit::kDisk:
      return "the disks of " + stage;
    case Limit::kHostMemory:
      return "copies within the memory of the hosts of " + stage;
    case Limit::kDeviceLink:
      return "the links between hosts and devices of " + stage;
    case Limit::kUpdate:
      return "the updates that the hosts of " + stage + " compute";
    case Limit::kLine:
      return "the lines of " + stage;
    case Limit::kConnection:
      return "the connections from " + stage + " to the next";
    case Limit::kInFlight:
      return "the microbatches in flight that there is memory for";
    case Limit::kSum:
      return "the sums of " + stage;
    case Limit::kStepLatency:
      return "the way of a step through pipeline, sums and commit; a larger batch hides it";
  }
  return "";
}

}  // namespace swarm::planner
