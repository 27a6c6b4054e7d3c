#!/usr/bin/env bash
# Runs every GPU test and prints benchmark tables; fails on a failed test, a sanitizer's report or a
# wrong result of any candidate. Needs a GPU, CUDA and PyTorch.
#   bench/gpu.sh [--binaries DIR] [--sanitize] [--no-bench] [--quick] [--logs DIR]
# Without --binaries it builds first, which takes this project's packages (scripts/setup build). A
# machine without them runs what `cmake --build build --target gpu_bundle` left in build/gpu_bundle
# of another one: --binaries build/gpu_bundle.
# --sanitize runs the tests under compute-sanitizer's four tools too. --quick: fewer shapes and sizes
# in the benchmark. Logs and figures (figures.json) go to --logs, build/gpu-logs unless given.
set -euo pipefail
cd "$(dirname "$0")/.."

binaries="" sanitize=0 bench=1 logs=build/gpu-logs options=()
while (($#)); do
  case "$1" in
    --binaries) binaries=${2:?} && shift ;;
    --logs) logs=${2:?} && shift ;;
    --sanitize) sanitize=1 ;;
    --no-bench) bench=0 ;;
    --quick) options+=(--quick) ;;
    -h | --help) sed -n '2,10s/^# \?//p' "$0"; exit 0 ;;
    *) sed -n '2,10s/^# \?//p' "$0" >&2; exit 2 ;;
  esac
  shift
done
mkdir -p "$logs"

fail() {
  echo "gpu.sh: $*" >&2
  exit 1
}

# What a configuration that failed didn't find, or its last line.
missing() {
  tr -s '\n ' ' ' <"$1" | grep -oE 'provided by "[^"]+"|Could NOT find [[:alnum:]_]+' | head -n 1 ||
    tail -n 1 "$1"
}

build() {
  local log=$logs/configure.txt
  binaries=build/gpu/gpu_bundle
  CUDACXX=$(scripts/nvcc) cmake --preset release -B build/gpu >"$log" 2>&1 ||
    fail "can't build here, a package is missing: $(missing "$log") (see $log). Install what" \
      "'scripts/setup build' lists, or build gpu_bundle on another machine and pass --binaries"
  ! grep -q '^-- CUDA: off' "$log" || fail "can't build here: no nvcc found"
  cmake --build build/gpu --target gpu_bundle
}
if [[ -z $binaries ]]; then
  # Building takes minutes, so what can be known before is said before.
  [[ -e /dev/nvidiactl || -e /dev/dxg ]] ||
    fail "no NVIDIA GPU here (no /dev/nvidiactl); --binaries takes what another machine built"
  build
fi
tests=$binaries/cuda_test
[[ -x $tests && -f $binaries/libwaybill_gpu.so ]] ||
  fail "$binaries holds no cuda_test and libwaybill_gpu.so; make it with the target gpu_bundle"
export WAYBILL_TEST_DATA=$PWD/tests/data

status=0
"$tests" --gtest_brief=1 2>&1 | tee "$logs/tests.txt" || status=1
if grep -q 'skipped (no GPU)' "$logs/tests.txt"; then
  echo "gpu.sh: no GPU here: nothing to sanitize or to measure"
  exit "$status"
fi

# Left out: another process's kernels; launches behind a held stream, where a tool may wait for each
# launch; kinds of numbers that take the same way through the kernels.
filter='-SameBits.ThePtxBuild*:HeldStream.*'
for kind in 1 2 3 4; do filter+=":*ModelOfTheTensorCore*/$kind"; done

# One tool over the short tests; passes when the tests do and the tool has nothing to report.
sanitize_with() {
  local tool=$1 log=$logs/$1.txt began=$SECONDS arguments=(--tool "$1" --error-exitcode 9)
  # Tests provoke failing calls and check what they give.
  [[ $tool != memcheck ]] || arguments+=(--report-api-errors no)
  if WAYBILL_GPU_SHORT=1 compute-sanitizer "${arguments[@]}" "$tests" --gtest_brief=1 \
      --gtest_filter="$filter" >"$log" 2>&1 && grep -qE 'SUMMARY: 0 (errors|hazards)' "$log"; then
    echo "compute-sanitizer $tool: clean, $(grep -o 'GPU tests: .*' "$log"), $((SECONDS - began)) s"
  else
    echo "compute-sanitizer $tool: FAILED, all of it in $log"
    grep -E 'SUMMARY|GPU tests:|FAILED|Failure|^=========' "$log" | head -n 30
    return 1
  fi
}

if ((sanitize)); then
  PATH+=:/usr/local/cuda/bin
  command -v compute-sanitizer >/dev/null || fail "no compute-sanitizer here; it comes with CUDA"
  running=()
  for tool in memcheck racecheck initcheck synccheck; do
    sanitize_with "$tool" &
    running+=($!)
  done
  for process in "${running[@]}"; do wait "$process" || status=1; done
fi

if ((bench)); then
  python3 -c 'import torch' 2>/dev/null || fail "the benchmark needs PyTorch; --no-bench leaves it out"
  WAYBILL_GPU_LIBRARY=$(realpath "$binaries/libwaybill_gpu.so") python3 bench/gpu/run.py \
    --json "$logs/figures.json" "${options[@]}" 2>&1 | tee "$logs/bench.txt" || status=1
fi
((status == 0)) || echo "gpu.sh: FAILED: see above"
exit "$status"
