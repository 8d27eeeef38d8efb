#!/usr/bin/env bash
# Installs the wheel of `make wheel` into an empty environment, runs the demo there from another
# folder, and then the tests of the kernels at every level that this processor runs.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
rm -rf build/smoke
"${PYTHON:-python3}" -m venv build/smoke
python=$root/build/smoke/bin/python
install() { "$python" -m pip install --quiet --disable-pip-version-check "$@"; }
install torch==2.13.0
install dist/tacit-*.whl
install scikit-learn  # the demo's pictures
export OMP_NUM_THREADS=1
(cd build/smoke && "$python" -m tacit doctor && "$python" "$root/examples/demo.py")
install pytest hypothesis expecttest
for level in $("$python" -c 'from tacit.kernels.levels import usable_levels as f; print(*f())'); do
  echo "kernels of level $level"
  TACIT_KERNELS=$level "$python" -m pytest tests/kernels --ignore-glob='*gpu*' \
    --ignore=tests/kernels/test_sanitizers.py --ignore=tests/kernels/test_levels.py
done
"$python" -m pytest tests/kernels/test_levels.py
