#!/usr/bin/env bash
# Three parties on this machine, as on three: certificates, one party file, a check, the job.
#
#     examples/04_three_machines/run.sh [FOLDER]
#
# On three machines each runs `party init` with its own address, sends its block to the others,
# and then `party check` and `run` with its own name.
set -euo pipefail
cd "$(dirname "$0")"
folder=${1:-$(mktemp -d)}
port=${PORT:-7401}

cp parties.toml "$folder/parties.toml"
for name in alice bob carol; do
  tacit party init "$name" --address "127.0.0.1:$port" --folder "$folder" >>"$folder/parties.toml"
  port=$((port + 1))
done

at_every_party() { # a command with NAME and FILE in it, at all parties at the same time
  local started=()
  for name in alice bob carol; do
    local words=("${@//NAME/$name}")
    "${words[@]//FILE/$folder/parties.toml}" &
    started+=($!)
  done
  for one in "${started[@]}"; do wait "$one"; done
}

at_every_party tacit party check --party NAME --parties FILE
at_every_party tacit run --party NAME --parties FILE --log "$folder/runs-NAME" job.py
