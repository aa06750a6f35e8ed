#include "planner/places.h"

#include "planner/ranking.h"
#include "planner/stage_memory.h"

namespace swarm::planner {

bool HasRoom(const Way& way, const ModelCosts& model, const Fleet& fleet) {
  bool has = true;
  EachPlace(way, [&](std::size_t s, std::size_t g) {
    const Machines& group = fleet.groups[g];
    const double room = group.room() > 0 ? group.room() : kRoomMax;
    const bool alone = MachinesIn(way.machines[s]) < 2;
    has = has && LeastMemory(way.spec, model, group, way.runs[s], alone) <= room;
  });
  return has;
}

}  // namespace swarm::planner
