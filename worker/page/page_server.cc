#include "worker/page/page_server.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <future>
#include <limits>
#include <string_view>
#include <utility>

#include "base/web/loopback.h"
#include "base/web/page_files.h"
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
/// As ToldValue says it.
constexpr std::string_view kNoChange = "{}";
/// JavaScript has no numbers beyond it.
constexpr double kNumbersEnd = 9e15;
/// Of the end of a worker's log.
constexpr std::size_t kLogBytes = std::size_t{16} << 10;
/// Beside those that streams keep.
constexpr int kThreads = 4;

web::Answer Busy() {
  return {.code = 503,
          .text = "no more viewers, or too busy; ask again\n",
          .headers = std::string(web::kPageHeaders) + "Retry-After: 2\r\n"};
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
    return web::NotOfThisMachine();
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
    if (!tail) return {.code = 404, .text = "no log here\n", .headers = web::kPageHeaders};
    return {.text = *tail, .headers = web::kPageHeaders};
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
    return web::FileAt(WebFiles(), request.path == "/" ? "/index.html" : request.path);
  }
  std::optional<std::string> json = Ask(std::move(make));
  return json ? web::JsonOf(*std::move(json)) : Busy();
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
          .headers = web::kPageHeaders,
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
  const std::string change =
      status_.ChangeTo(view ? ToJson(*view, options_.job, UnixSeconds()) : std::string("null"));
  if (change == kNoChange && !history_.has_news()) return;
  ++number_;
  const std::optional<std::string> news = history_.TakeNews();
  broadcast_.Send(news ? Event("news", "{\"number\":" + std::to_string(number_) +
                                           ",\"change\":" + change + ",\"news\":" + *news + "}")
                       : Event("state", StateJson()));
}

std::string PageServer::StateJson() const {
  return "{\"number\":" + std::to_string(number_) + ",\"status\":" + status_.text() +
         ",\"curves\":" + history_.CurvesJson(0, std::numeric_limits<double>::infinity()) +
         ",\"marks\":" + history_.MarksJson() + "}";
}

}  // namespace swarm::page
