// Errors that one bad device explains: libtorch or CUDA fails, or a sum or a state differs from
// that of the others. Such a worker departs and the job goes on, unless several show the same: then
// the program, the model or the data is at fault, and other workers would not avoid it.
#pragma once

#include <deque>

#include "worker/protocol/ids.h"

namespace swarm::protocol {

class Trouble {
 public:
  /// The worker is in trouble at that version. Returns whether the job must end: because
  /// - three workers were in trouble within the last 100 versions, or
  /// - there was trouble three times and no commit between.
  bool Note(const WorkerId& worker, Version version);

 private:
  struct Entry {
    WorkerId worker;
    Version version;
  };
  std::deque<Entry> last_;
};

}  // namespace swarm::protocol
