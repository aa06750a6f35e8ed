#include "ctl/enrol/token_command.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/files.h"
#include "base/short_time.h"
#include "ctl/enrol/listed.h"
#include "ctl/run/run_plan.h"
#include "worker/enrol/service/client.h"

namespace swarm::ctl {
namespace {

const char* NameOf(enrol::TokenState state) {
  switch (state) {
    case enrol::TokenState::kGood:
      return "good";
    case enrol::TokenState::kUsedUp:
      return "used up";
    case enrol::TokenState::kExpired:
      return "expired";
    case enrol::TokenState::kRevoked:
      return "revoked";
  }
  return "";
}

/// The home of the run in `out`, called as its operator: whoever may read the keys of the run is.
Result<enrol::Client> CallHome(const std::filesystem::path& out) {
  RunPlan plan;
  plan.out = out;
  const auto read = [&](const std::filesystem::path& file) -> Result<std::string> {
    auto text = ReadFile(file);
    if (text.ok()) return text;
    return NotFound("no run with --listen goes on in " + out.string() + ": " +
                    text.status().message());
  };
  ASSIGN_OR_RETURN(const std::string home, read(plan.home_file()));
  ASSIGN_OR_RETURN(const std::string certificate, read(plan.tls_directory() / "operator.crt"));
  ASSIGN_OR_RETURN(const std::string key, read(plan.tls_directory() / "operator.key"));
  const std::size_t end = home.find('\n');
  if (end == home.npos) return DataLoss(plan.home_file().string() + " is damaged");
  enrol::Client client({.address = home.substr(0, end),
                        .fingerprint = home.substr(end + 1, home.find('\n', end + 1) - end - 1)});
  client.SetIdentity({certificate, key});
  return client;
}

ExitCode Refuse(const Status& status, std::ostream& err) {
  err << status.message() << "\n";
  return ExitCodeOf(status);
}

}  // namespace

ExitCode CreateToken(const TokenOptions& options, std::ostream& out, std::ostream& err) {
  auto home = CallHome(options.out);
  if (!home.ok()) return Refuse(home.status(), err);
  const auto token = home->CreateToken(options.terms);
  if (!token.ok()) return Refuse(token.status(), err);
  out << "swarmctl join " << *token << "\n";
  return ExitCode::kOk;
}

ExitCode ListTokens(const TokenOptions& options, std::ostream& out, std::ostream& err) {
  auto home = CallHome(options.out);
  if (!home.ok()) return Refuse(home.status(), err);
  const auto tokens = home->ListTokens();
  if (!tokens.ok()) return Refuse(tokens.status(), err);
  for (const enrol::TokenStatus& token : *tokens) {
    if (options.json) {
      out << nlohmann::json{{"id", token.id},
                            {"state", NameOf(token.state)},
                            {"usesLeft", token.uses_left},
                            {"secondsLeft", ToSeconds(token.time_left)},
                            {"workers", token.workers}}
                 .dump()
          << "\n";
      continue;
    }
    out << token.id << "  " << NameOf(token.state);
    if (token.state == enrol::TokenState::kGood) {
      out << " for " << ShortTime(ToSeconds(token.time_left)) << " and " << token.uses_left
          << (token.uses_left == 1 ? " machine" : " machines");
    }
    if (!token.workers.empty()) out << "; joined with it: " << Listed(token.workers);
    out << "\n";
  }
  return ExitCode::kOk;
}

ExitCode RevokeToken(const TokenOptions& options, std::ostream& out, std::ostream& err) {
  auto home = CallHome(options.out);
  if (!home.ok()) return Refuse(home.status(), err);
  const auto workers = home->Revoke(options.name);
  if (!workers.ok()) return Refuse(workers.status(), err);
  out << options.name << " is revoked"
      << (workers->empty() ? "" : "; out within a minute: " + Listed(*workers)) << "\n";
  return ExitCode::kOk;
}

}  // namespace swarm::ctl
