#!/usr/bin/env bash
# Makes the Python environment of zero_infinity.py in $SWARM_DEPS/deepspeed (5 GB: the wheel of torch brings CUDA along).
# DeepSpeed compiles what moves bytes to disks when it first runs, and needs libaio for it (Debian's libaio-dev).
# Idempotent; prints the folder.
[ -e /usr/include/libaio.h ] || { echo "deepspeed: install libaio-dev first" >&2; exit 1; }
DS_BUILD_OPS=0 exec "$(dirname "$0")/../../scripts/venv.sh" deepspeed torch==2.11.0 numpy==2.3.4 ninja==1.13.0 setuptools==80.9.0 \
  deepspeed==0.19.8
