#!/usr/bin/env bash
# Makes the Python environment of the plots in $SWARM_DEPS/plots. Idempotent; prints the folder.
exec "$(dirname "$0")/../../scripts/venv.sh" plots matplotlib==3.11.2 numpy==2.4.6 contourpy==1.3.3 cycler==0.12.1 \
  fonttools==4.68.0 kiwisolver==1.5.1 packaging==26.3 pillow==13.0.0 pyparsing==3.3.3 python-dateutil==4.0.0 \
  tzdata==2026.6
