// swarmctl token: the owner of a run decides which machines may join it.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

#include "ctl/exit_codes.h"
#include "worker/enrol/register.h"

namespace swarm::ctl {

struct TokenOptions {
  std::filesystem::path out;  ///< the folder of a run that goes on now, with --listen
  enrol::TokenTerms terms;    ///< of a new token
  std::string name;           ///< to revoke: of a token or a worker
  bool json = false;          ///< list
};

/// Prints the command for the machine that shall join.
ExitCode CreateToken(const TokenOptions& options, std::ostream& out, std::ostream& err);
ExitCode ListTokens(const TokenOptions& options, std::ostream& out, std::ostream& err);
ExitCode RevokeToken(const TokenOptions& options, std::ostream& out, std::ostream& err);

}  // namespace swarm::ctl
