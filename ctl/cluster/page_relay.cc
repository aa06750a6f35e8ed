#include "ctl/cluster/page_relay.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <optional>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>

#include "base/web/broadcast.h"
#include "base/web/loopback.h"
#include "operator/kube/object/resource.h"
#include "operator/names/names.h"

namespace swarm::ctl {
namespace {

constexpr int kThreads = 16;
constexpr Duration kQuiet = std::chrono::seconds(2);
constexpr std::size_t kBytesMax = std::size_t{64} << 20;
constexpr const char* kStreamPath = "/events";

/// Of the pod's answer, those that a browser has to have, too.
constexpr std::array kPassedOn{"cache-control", "content-security-policy", "referrer-policy",
                               "retry-after", "x-content-type-options"};

/// Of a path or a query, as the page's own have it: nothing that leads elsewhere. A path came
/// decoded, and what is still escaped in it would be decoded once more behind the API server.
bool IsPlain(std::string_view text) {
  return text.find("..") == text.npos && text.find("//") == text.npos &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("/-_.~=&%+").find(static_cast<char>(c)) !=
                      std::string_view::npos;
         });
}

web::Answer Away(const std::string& why) {
  return {.code = 503, .text = why + "\n", .headers = "Cache-Control: no-store\r\n"};
}

std::string HeaderOf(const kube::HttpHead& head, const std::string& name) {
  const auto found = head.headers.find(name);
  if (found == head.headers.end()) return {};
  // A line break would begin another header.
  return found->second.substr(0, found->second.find_first_of("\r\n"));
}

web::Answer HeadOf(const kube::HttpHead& head) {
  web::Answer answer{.code = head.status, .type = HeaderOf(head, "content-type")};
  for (const char* name : kPassedOn) {
    const std::string value = HeaderOf(head, name);
    if (!value.empty()) answer.headers += std::string(name) + ": " + value + "\r\n";
  }
  return answer;
}

void EraseAll(const std::string& part, std::string* text) {
  for (std::size_t at = 0; (at = text->find(part, at)) != text->npos;) text->erase(at, part.size());
}

/// A stream on its way to a browser. Ends when it goes.
struct Passage {
  explicit Passage(std::stop_token all)
      : ended_with_all(std::move(all), [this] { stop.request_stop(); }) {}
  ~Passage() { stop.request_stop(); }

  web::Broadcast broadcast{{.viewers = 1, .waiting_bytes = kBytesMax}};
  std::shared_ptr<web::Broadcast::Viewer> viewer = broadcast.Join("");
  std::promise<kube::HttpHead> head;
  std::stop_source stop;
  std::stop_callback<std::function<void()>> ended_with_all;
  std::jthread reading;  // last: it uses all else
};

}  // namespace

std::string PagePrefix(const std::string& ns, const std::string& pod) {
  return kube::ObjectPath(kube::resources::Pods(), {ns, pod}) + ":" +
         std::to_string(names::kPagePort) + "/proxy";
}

Status NotOnLoopback(const std::string& listen) {
  return InvalidArgument("'" + listen +
                         "' is not on loopback: whoever reaches it would read the page with your"
                         " rights in the cluster");
}

Result<std::unique_ptr<PageRelay>> PageRelay::Start(const std::string& listen, Find find) {
  if (!web::IsLoopback(listen)) return NotOnLoopback(listen);
  std::unique_ptr<PageRelay> relay(new PageRelay(std::move(find)));
  ASSIGN_OR_RETURN(relay->server_,
                   web::Server::Start({.listen = listen, .serves = "the page", .threads = kThreads},
                                      [relay = relay.get()](const web::Request& request) {
                                        return relay->Respond(request);
                                      }));
  return relay;
}

PageRelay::~PageRelay() { ended_.request_stop(); }

web::Answer PageRelay::Respond(const web::Request& request) const {
  if (!web::IsOfThisMachine(request.host)) {
    return {.code = 403, .text = "ask for it by its address\n"};
  }
  if (!request.path.starts_with('/') || !IsPlain(request.path) ||
      request.path.find('%') != std::string::npos || !IsPlain(request.query)) {
    return {.code = 404, .text = "not found\n"};
  }
  const Result<PagePlace> place = find_();
  if (!place.ok()) return Away(place.status().message());
  kube::HttpRequest asked;
  asked.target = place->prefix + request.path;
  if (!request.query.empty()) asked.target += "?" + request.query;
  if (!place->authorization.empty()) asked.headers["authorization"] = place->authorization;
  if (request.path == kStreamPath) return Stream(*place, asked);
  auto response = place->transport->Send(asked, {.body_bytes_max = kBytesMax}, ended_.get_token());
  if (!response.ok()) return Away(response.status().message());
  web::Answer answer = HeadOf(response->head);
  answer.text = std::move(response->body);
  // The API server puts its own path before each of a document's.
  if (answer.type.starts_with("text/html")) EraseAll(place->prefix, &answer.text);
  return answer;
}

web::Answer PageRelay::Stream(const PagePlace& place, const kube::HttpRequest& request) const {
  const auto passage = std::make_shared<Passage>(ended_.get_token());
  std::future<kube::HttpHead> head = passage->head.get_future();
  passage->reading = std::jthread([place, request, passage = passage.get()] {
    bool begun = false;
    const Status status =
        place.transport->Stream(request, {},
                                {.on_head =
                                     [&](const kube::HttpHead& head) {
                                       begun = true;
                                       passage->head.set_value(head);
                                       return head.status == 200;
                                     },
                                 .on_bytes =
                                     [&](std::string_view bytes) {
                                       passage->broadcast.Send(std::string(bytes));
                                       return true;
                                     }},
                                passage->stop.get_token());
    if (!begun) passage->head.set_value({.status = 503, .headers = {}});
    passage->broadcast.Close();
  });
  web::Answer answer = HeadOf(head.get());
  if (answer.code != 200) return Away("the trainer's page does not answer");
  answer.more = [passage] { return passage->viewer->Take(kQuiet); };
  return answer;
}

}  // namespace swarm::ctl
