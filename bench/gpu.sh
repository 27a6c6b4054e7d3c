#!/usr/bin/env bash
# Builds, runs every GPU test and prints benchmark tables. Needs a GPU, CUDA and PyTorch.
#   bench/gpu.sh [--quick] [--sanitize] [--no-bench] [--build DIR]
# --build DIR uses the programs of DIR (cuda_test, libwaybill_gpu.so) instead of building, for a
# machine without the project's other build dependencies. --sanitize runs compute-sanitizer's four
# tools over a part of the tests.
set -euo pipefail
cd "$(dirname "$0")/.."

build="" bench=1 sanitize=0 arguments=()
while (($#)); do
  case "$1" in
    --quick) arguments+=(--quick) ;;
    --sanitize) sanitize=1 ;;
    --no-bench) bench=0 ;;
    --build) build="$2"; shift ;;
    *) echo "usage: bench/gpu.sh [--quick] [--sanitize] [--no-bench] [--build DIR]" >&2; exit 2 ;;
  esac
  shift
done

if [[ -z "$build" ]]; then
  cmake --preset release -B build/gpu >/dev/null
  cmake --build build/gpu --target cuda_test waybill_gpu
  build=build/gpu
fi
tests=$(find "$build" -name cuda_test -type f | head -1)
library=$(realpath "$(find "$build" -name libwaybill_gpu.so | head -1)")

"$tests" --gtest_brief=1

if ((sanitize)); then
  # Whole layers, plans of one and of many tiles, every tile shape; small, since each tool slows
  # kernels down by orders of magnitude.
  part='DeviceLayer.*:RowMovement.*:DeviceExperts.*:DeviceLayerModel.*:DevicePlan.Bad*:DevicePlan.Padding*:DevicePlan.ThousandsOf*:SameBits.Not*:Inputs/ModelOfTheTensorCore*/0'
  for tool in memcheck racecheck initcheck synccheck; do
    echo "compute-sanitizer $tool"
    compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 5 \
      "$tests" --gtest_brief=1 --gtest_filter="$part"
  done
fi

if ((bench)); then
  WAYBILL_GPU_LIBRARY="$library" python3 bench/gpu/run.py "${arguments[@]}"
fi
