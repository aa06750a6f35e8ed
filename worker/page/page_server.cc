#include "worker/page/page_server.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <future>
#include <limits>
#include <string_view>
#include <utility>

#include "base/web/loopback.h"
#include "worker/page/files.h"
#include "worker/page/ledger_file.h"
#include "worker/page/log_tail.h"
#include "worker/page/state/account.h"

namespace swarm::page {
namespace {

constexpr Duration kPeriod = std::chrono::milliseconds(250);
constexpr Duration kLookLimit = std::chrono::seconds(1);
constexpr Duration kAskLimit = std::chrono::seconds(10);
/// A stream without news says so much later that it lives, or finds that its reader is gone.
constexpr Duration kQuiet = std::chrono::seconds(2);
/// JavaScript has no numbers beyond it.
constexpr double kNumbersEnd = 9e15;
/// Of the end of a worker's log.
constexpr std::size_t kLogBytes = std::size_t{16} << 10;
/// Beside those that streams keep.
constexpr int kThreads = 4;

/// The browser asks no other address for anything, and runs nothing that is not a file of ours.
constexpr const char* kHeaders =
    "Cache-Control: no-store\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src "
    "'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n";

std::string TypeOf(std::string_view path) {
  if (path.ends_with(".html")) return "text/html; charset=utf-8";
  if (path.ends_with(".css")) return "text/css; charset=utf-8";
  if (path.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (path.ends_with(".svg")) return "image/svg+xml";
  return "text/plain; charset=utf-8";
}

web::Answer Json(std::string text) {
  return {.type = "application/json", .text = std::move(text), .headers = kHeaders};
}

web::Answer Busy() {
  return {.code = 503,
          .text = "no more viewers, or too busy; ask again\n",
          .headers = std::string(kHeaders) + "Retry-After: 2\r\n"};
}

web::Answer FileAt(std::string_view path) {
  if (path == "/") path = "/index.html";
  for (const WebFile& file : WebFiles()) {
    if (file.path != path) continue;
    return {.type = TypeOf(path), .text = std::string(file.content), .headers = kHeaders};
  }
  return {.code = 404, .text = "not found\n", .headers = kHeaders};
}

std::string Event(const char* name, const std::string& json) {
  return std::string("event: ") + name + "\ndata: " + json + "\n\n";
}

/// What is behind "NAME=" in a query.
std::string_view TextIn(std::string_view query, std::string_view name) {
  for (std::size_t begin = 0; begin < query.size();) {
    const std::size_t end = std::min(query.find('&', begin), query.size());
    const std::string_view part = query.substr(begin, end - begin);
    if (part.starts_with(name) && part.substr(name.size()).starts_with('=')) {
      return part.substr(name.size() + 1);
    }
    begin = end + 1;
  }
  return {};
}

/// The same as a number; `otherwise` if it is none.
double NumberIn(std::string_view query, std::string_view name, double otherwise) {
  const std::string_view digits = TextIn(query, name);
  double number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return read.ec == std::errc() ? number : otherwise;
}

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

PageServer::PageServer(PageOptions options)
    : options_(std::move(options)),
      broadcast_(options_.limits),
      steps_(options_.folder + "/steps.jsonl"),
      events_(options_.folder + "/events.jsonl") {}

Result<std::unique_ptr<PageServer>> PageServer::Start(PageOptions options) {
  std::unique_ptr<PageServer> page(new PageServer(std::move(options)));
  const web::ServerOptions server{
      .listen = page->options_.listen,
      .serves = "the page",
      .threads = static_cast<int>(page->options_.limits.viewers) + kThreads};
  ASSIGN_OR_RETURN(page->server_,
                   web::Server::Start(server, [page = page.get()](const web::Request& request) {
                     return page->Respond(request);
                   }));
  return page;
}

PageServer::~PageServer() {
  broadcast_.Close();
  server_.reset();  // its threads ask the loop
  loop_.Stop();
}

void PageServer::Close() {
  Ask<bool>([this] {
    next_look_ = {};
    Refresh();
    return true;
  });
  broadcast_.Close();
}

template <typename Answer>
std::optional<Answer> PageServer::Ask(std::function<Answer()> make) {
  const auto answer = std::make_shared<std::promise<Answer>>();
  auto future = answer->get_future();
  loop_.Post([answer, make = std::move(make)] { answer->set_value(make()); });
  if (future.wait_for(kAskLimit) != std::future_status::ready) return std::nullopt;
  return future.get();
}

web::Answer PageServer::Respond(const web::Request& request) {
  if (web::IsLoopback(options_.listen) && !web::IsOfThisMachine(request.host)) {
    return {.code = 403, .text = "ask for it by its address\n", .headers = kHeaders};
  }
  if (request.path == "/events") return Stream();
  std::function<std::string()> make;
  if (request.path == "/state") {
    make = [this] {
      Refresh();
      return StateJson();
    };
  } else if (request.path == "/curves") {
    const double from = NumberIn(request.query, "from", 0);
    const double to = NumberIn(request.query, "to", std::numeric_limits<double>::infinity());
    make = [this, from, to] {
      Refresh();
      return history_.CurvesJson(from, to);
    };
  } else if (request.path == "/timeline") {
    const double after = NumberIn(request.query, "after", -1);
    make = [this, after] {
      const auto view = options_.look_at_lanes(
          kLookLimit, after > 0 && after < kNumbersEnd ? static_cast<std::int64_t>(after) : -1);
      return view ? ToJson(*view, UnixSeconds()) : "null";
    };
  } else if (request.path == "/log") {
    const std::optional<std::string> tail =
        ReadLogTail(options_.folder, TextIn(request.query, "worker"), kLogBytes);
    if (!tail) return {.code = 404, .text = "no log here\n", .headers = kHeaders};
    return {.text = *tail, .headers = kHeaders};
  } else if (request.path == "/account") {
    const double step = NumberIn(request.query, "step", -1);
    make = [this, step] {
      const auto wanted = step >= 0 && step < kNumbersEnd
                              ? std::optional(static_cast<std::uint64_t>(step))
                              : std::nullopt;
      return AccountJson(ReadAccount(options_.folder + "/ledger.jsonl", wanted),
                         options_.microbatches, options_.stages);
    };
  } else {
    return FileAt(request.path);
  }
  std::optional<std::string> json = Ask(std::move(make));
  return json ? Json(*std::move(json)) : Busy();
}

web::Answer PageServer::Stream() {
  using Viewer = std::shared_ptr<web::Broadcast::Viewer>;
  const std::optional<Viewer> joined = Ask<Viewer>([this] {
    Refresh();
    auto viewer = broadcast_.Join("retry: 1000\n" + Event("state", StateJson()));
    if (viewer && !std::exchange(ticking_, true)) {
      loop_.PostAt(Clock::now() + kPeriod, [this] { Tick(); });
    }
    return viewer;
  });
  if (!joined || !*joined) return Busy();
  return {.type = "text/event-stream",
          .headers = kHeaders,
          .more = [viewer = *joined]() -> std::optional<std::string> {
            std::optional<std::string> next = viewer->Take(kQuiet);
            if (next && next->empty()) next = ":\n\n";
            return next;
          }};
}

void PageServer::Tick() {
  ticking_ = broadcast_.viewers() > 0;
  if (!ticking_) return;
  Refresh();
  loop_.PostAt(Clock::now() + kPeriod, [this] { Tick(); });
}

void PageServer::Refresh() {
  if (Clock::now() < next_look_) return;
  next_look_ = Clock::now() + kPeriod;
  const auto read = [this] {
    return events_.ReadOn([this](std::string_view line) { history_.AddEvent(line); }) &&
           steps_.ReadOn([this](std::string_view line) { history_.AddStep(line); });
  };
  if (!read()) {
    history_.Clear();
    steps_.Rewind();
    events_.Rewind();
    read();  // a file that is cut once more is noticed at the next call
  }
  const std::optional<JobView> view = options_.look(kLookLimit);
  std::string status = view ? ToJson(*view, options_.job, UnixSeconds()) : "null";
  const bool changed = status != status_;
  status_ = std::move(status);
  if (!changed && !history_.has_news()) return;
  const std::optional<std::string> news = history_.TakeNews();
  broadcast_.Send(news ? Event("news", "{\"status\":" + status_ + ",\"news\":" + *news + "}")
                       : Event("state", StateJson()));
}

std::string PageServer::StateJson() const {
  return "{\"status\":" + status_ +
         ",\"curves\":" + history_.CurvesJson(0, std::numeric_limits<double>::infinity()) +
         ",\"marks\":" + history_.MarksJson() + "}";
}

}  // namespace swarm::page
