#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>

#include <string>

namespace swarm {

void StartLogging(std::string_view name, std::string_view level) {
  auto logger = spdlog::stderr_logger_mt(std::string(name));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %n %v", spdlog::pattern_time_type::utc);
  logger->set_level(spdlog::level::from_str(std::string(level)));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace swarm
