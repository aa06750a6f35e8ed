#include "api/job_for_machines.h"

#include "api/parse.h"

namespace swarm::api {

std::string JobForMachines(const SwarmJob& job) {
  const Spec& spec = job.spec;
  if (spec.model.config.hidden_size == 0) return "";
  SwarmJob told{.name = job.name, .metadata = {}, .spec = {}};
  told.spec.model = {.uri = {},
                     .init = spec.model.init,
                     .config = spec.model.config,
                     .tokenizer = {},
                     .lora = spec.model.lora};
  // Of ids no tokenizer is asked for.
  told.spec.data = {.uri = "home.bin", .sources = {}, .tokenType = TokenType::kUInt32};
  told.spec.data.documents = spec.data.documents;
  told.spec.training = spec.training;
  told.spec.optimizer = spec.optimizer;
  told.spec.schedule = spec.schedule;
  told.spec.pipeline = spec.pipeline;
  told.spec.pipeline.memory.scratch.clear();
  told.spec.workers.replicas = spec.workers.replicas;
  told.spec.workers.minReplicas = spec.workers.minReplicas;
  told.spec.workers.memoryBudgetBytes = spec.workers.memoryBudgetBytes;
  std::string text = ToJsonText(told, Defaults::kLeftOut);
  return text.size() <= kJobForMachinesMax ? text : "";
}

}  // namespace swarm::api
