#include "operator/kube/client/caller.h"

#include <algorithm>
#include <utility>

#include "operator/kube/client/api_error.h"

namespace swarm::kube {
namespace {

constexpr int kUnauthorized = 401;

// Stops when one of two tokens does.
class EitherStop {
 public:
  EitherStop(std::stop_token one, std::stop_token other)
      : by_one_(std::move(one), Forward{&source_}),
        by_other_(std::move(other), Forward{&source_}) {}
  std::stop_token token() const { return source_.get_token(); }

 private:
  struct Forward {
    std::stop_source* source;
    void operator()() const { source->request_stop(); }
  };
  std::stop_source source_;
  std::stop_callback<Forward> by_one_;
  std::stop_callback<Forward> by_other_;
};

TryOutcome OutcomeOf(const Call& call, const Result<HttpResponse>& answer) {
  TryOutcome outcome;
  outcome.transport = answer.status();
  outcome.idempotent = call.idempotent;
  if (answer.ok()) {
    outcome.http_status = answer->head.status;
    if (const auto error = ErrorIn(answer->head, answer->body)) {
      outcome.retry_after = error->retry_after;
      // The server has not seen this version yet, so a retry without a version helps.
      if (error->IsTooLargeVersion()) outcome.http_status = 0;
    }
  }
  return outcome;
}

}  // namespace

Caller::Caller(std::shared_ptr<HttpTransport> transport, std::shared_ptr<Credentials> credentials,
               const RestClientOptions& options, Timing& timing, ClientMetrics* metrics)
    : transport_(std::move(transport)),
      credentials_(std::move(credentials)),
      options_(options),
      timing_(timing),
      metrics_(metrics),
      bucket_(options.requests_per_second, options.burst) {}

Status Caller::SetHeaders(HttpRequest& request) {
  request.headers["user-agent"] = options_.user_agent;
  request.headers.try_emplace("accept", "application/json");
  // Read for each try, because the token may have been replaced.
  std::string authorization;
  if (credentials_) {
    ASSIGN_OR_RETURN(authorization, credentials_->Authorization());
  }
  if (authorization.empty()) {
    request.headers.erase("authorization");
  } else {
    request.headers["authorization"] = authorization;
  }
  return Status();
}

Status Caller::WaitForTurn(const Call& call, std::stop_token stop) {
  Duration wait;
  {
    const std::lock_guard lock(mutex_);
    wait = bucket_.Reserve(timing_.Now());
  }
  if (metrics_) {
    metrics_->ObserveRateLimiter(call.verb, transport_->host(), ToSeconds(wait));
  }
  if (wait > Duration::zero() && !timing_.Sleep(wait, stop)) {
    return Cancelled("the client was stopped");
  }
  return Status();
}

void Caller::Count(const Call& call, int http_status, Timepoint began) {
  if (!metrics_) return;
  metrics_->CountRequest(http_status, call.request.method, transport_->host());
  metrics_->ObserveRequest(call.verb, transport_->host(), ToSeconds(timing_.Now() - began));
}

Result<HttpResponse> Caller::TryOnce(Call& call, Timepoint deadline, std::stop_token stop) {
  RETURN_IF_ERROR(WaitForTurn(call, stop));
  RETURN_IF_ERROR(SetHeaders(call.request));
  const Timepoint began = timing_.Now();
  SendLimits limits;
  limits.timeout = std::min(options_.request_timeout, deadline - began);
  if (limits.timeout <= Duration::zero())
    return DeadlineExceeded("no time is left for the request");
  auto answer = transport_->Send(call.request, limits, stop);
  Count(call, answer.ok() ? answer->head.status : 0, began);
  return answer;
}

Result<HttpResponse> Caller::Send(Call call) {
  const Timepoint deadline = timing_.Now() + call.timeout.value_or(options_.call_timeout);
  const EitherStop stop(call.stop, options_.stop);
  bool refused = false;
  for (int tries = 1;; ++tries) {
    auto answer = TryOnce(call, deadline, stop.token());
    if (answer.ok() && answer->head.status == kUnauthorized && credentials_ && !refused) {
      refused = true;
      credentials_->OnRefused();
      answer = TryOnce(call, deadline, stop.token());
    }
    const auto pause = PauseBeforeRetry(OutcomeOf(call, answer), tries, timing_.Uniform());
    if (!pause || timing_.Now() + *pause >= deadline) return answer;
    if (!timing_.Sleep(*pause, stop.token())) return Cancelled("the client was stopped");
  }
}

Status Caller::Stream(const Call& call, const StreamLimits& limits, const StreamSink& sink) {
  const EitherStop stop(call.stop, options_.stop);
  for (bool refused = false;; refused = true) {
    RETURN_IF_ERROR(WaitForTurn(call, stop.token()));
    HttpRequest request = call.request;
    RETURN_IF_ERROR(SetHeaders(request));
    const Timepoint began = timing_.Now();
    int http_status = 0;
    bool again = false;
    const StreamSink counting{[&](const HttpHead& head) {
                                http_status = head.status;
                                Count(call, http_status, began);
                                again = http_status == kUnauthorized && credentials_ && !refused;
                                return !again && sink.on_head(head);
                              },
                              sink.on_bytes};
    Status status = transport_->Stream(request, limits, counting, stop.token());
    if (http_status == 0) Count(call, 0, began);
    if (!again) return status;
    credentials_->OnRefused();
  }
}

}  // namespace swarm::kube
