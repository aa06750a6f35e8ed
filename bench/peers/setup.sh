#!/usr/bin/env bash
# Makes the Python environment of the peers' measurements in $SWARM_DEPS/peers (5 GB: the wheel of torch brings CUDA
# along). Idempotent; prints the folder.
exec "$(dirname "$0")/../../scripts/venv.sh" peers torch==2.11.0 numpy==2.3.4 bitsandbytes==0.50.2
