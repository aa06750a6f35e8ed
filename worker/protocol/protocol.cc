#include "worker/protocol/messages.h"
