#!/usr/bin/env bash
# Writes requirements-dev.lock from the extra `dev` of pyproject.toml, for all platforms. Needs uv.
#
#     tools/lock.sh                             # keeps the versions that the lock file has
#     tools/lock.sh --upgrade                   # takes the newest
#     tools/lock.sh --upgrade-package pytest    # takes the newest of one package
#
# torch is left out, with the libraries that only it needs: the Makefile installs it first, so that
# the build for the machine is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
without_torch=$(mktemp)
trap 'rm "$without_torch"' EXIT
echo 'torch ; python_version < "3"' >"$without_torch"
uv pip compile pyproject.toml --extra dev --universal --python-version 3.11.0 \
  --generate-hashes --no-emit-index-url --no-annotate --override "$without_torch" \
  --custom-compile-command tools/lock.sh --output-file requirements-dev.lock --quiet "$@"
