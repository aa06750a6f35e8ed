// Serves the page on which people watch a job: files of web/, the state as JSON, and its changes as
// server-sent events (docs/page.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/loop.h"
#include "base/status.h"
#include "base/time.h"
#include "base/web/broadcast.h"
#include "base/web/web_server.h"
#include "worker/page/growing_file.h"
#include "worker/page/state/changes.h"
#include "worker/page/state/history.h"
#include "worker/page/state/lanes.h"
#include "worker/page/state/view.h"

namespace swarm::page {

struct PageOptions {
  std::string listen;              ///< as web::ServerOptions
  std::string job;                 ///< its name
  std::string folder;              ///< of the run: steps.jsonl, events.jsonl, ledger.jsonl
  std::uint64_t microbatches = 0;  ///< of a step
  std::uint64_t stages = 0;
  /// Asked on the page's own thread, at most four times a second, and only while somebody looks.
  /// Nothing: no trainer answers within `limit`.
  std::function<std::optional<JobView>(Duration limit)> look;
  /// Asked there for each /timeline: the lanes since a slot.
  std::function<std::optional<LanesView>(Duration limit, std::int64_t after)> look_at_lanes;
  web::BroadcastLimits limits = {};
};

/// Without viewers it does nothing. Its thread `page` owns what is shown, and makes the JSON; the
/// threads of the web server only write it.
class PageServer {
 public:
  /// Errors: as web::Server::Start.
  static Result<std::unique_ptr<PageServer>> Start(PageOptions options);
  /// As Close, without a last look.
  ~PageServer();

  const std::string& address() const { return server_->address(); }
  /// Tells the viewers the last state and ends their streams. Call it before `look` loses its
  /// trainer.
  void Close();

 private:
  explicit PageServer(PageOptions options);
  web::Answer Respond(const web::Request& request);
  web::Answer Stream();
  /// What `make` returns on the page's thread; nothing: it is too busy.
  template <typename Answer>
  std::optional<Answer> Ask(std::function<Answer()> make);

  // On the thread `page`.
  void Tick();
  /// Reads what is new, and tells the viewers; not more than four times a second.
  void Refresh();
  std::string StateJson() const;

  const PageOptions options_;
  web::Broadcast broadcast_;
  GrowingFile steps_, events_;
  History history_;
  ToldValue status_;
  std::uint64_t number_ = 0;  // of the last event; one who has missed an event sees it
  Timepoint next_look_{};
  bool ticking_ = false;
  Loop loop_{"page"};
  std::unique_ptr<web::Server> server_;  // last: its threads use all else
};

}  // namespace swarm::page
