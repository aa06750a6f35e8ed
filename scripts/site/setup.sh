#!/usr/bin/env bash
# Makes the Python environment that builds the site, and prints its folder: the generator and what decides its output.
exec "$(dirname "$0")/../venv.sh" site zensical==0.0.73 markdown==3.11.3 pymdown-extensions==13.1.2 pygments==2.21.0 \
  pyyaml==6.0.4
