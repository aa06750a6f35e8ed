// A prompt for the hint at the end of a run.
#pragma once

#include <string>

#include "api/swarmjob.h"

namespace swarm::ctl {

/// The first words of the job's data, if these are a text on this machine; else a word that suits
/// most English texts. An id, for a model that is trained on ids without a tokenizer. Has no
/// characters that a shell changes between double quotes.
std::string SuggestPrompt(const api::Spec& spec);

}  // namespace swarm::ctl
