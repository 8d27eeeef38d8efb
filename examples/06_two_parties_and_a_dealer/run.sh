#!/usr/bin/env bash
# Two parties and a dealer on this machine, as on three: certificates, a party file, the job.
#
#     examples/06_two_parties_and_a_dealer/run.sh [FOLDER]
#
# The dealer's machine must belong to neither party: together with one it can open every secret.
set -euo pipefail
cd "$(dirname "$0")"
folder=${1:-$(mktemp -d)}
port=${PORT:-7501}
file="$folder/parties.toml"

cp parties.toml "$file"
tacit party init alice --address "127.0.0.1:$port" --folder "$folder" >>"$file"
tacit party init bob --address "127.0.0.1:$((port + 1))" --folder "$folder" >>"$file"
tacit party init dora --dealer --address "127.0.0.1:$((port + 2))" --folder "$folder" >>"$file"
tacit doctor --parties "$file"

started=()
tacit run --party alice --parties "$file" --log "$folder/runs-alice" job.py &
started+=($!)
tacit run --party bob --parties "$file" --log "$folder/runs-bob" job.py &
started+=($!)
tacit dealer --parties "$file" --log "$folder/runs-dora" job.py &
started+=($!)
for one in "${started[@]}"; do wait "$one"; done
