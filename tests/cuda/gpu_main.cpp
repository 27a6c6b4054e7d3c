// Runs the GPU tests, or says how many it leaves out where there is no GPU (CTest reads that line).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string_view>

#include "cuda/gpu.h"
#include "expert/cuda/grouped_gemm.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto& tests = *::testing::UnitTest::GetInstance();
  if (waybill::device_count(waybill::DeviceKind::cuda) == 0) {
    fmt::print("GPU tests: 0 passed, 0 failed, {} skipped (no GPU)\n", tests.total_test_count());
    return 0;
  }
  if (argc == 2 && std::string_view(argv[1]) == "--hash") {
    fmt::print("output hash {} by code for {}\n", waybill::testing::output_hash(),
               waybill::grouped_gemm_ptx_version());
    return 0;
  }
  const int result = RUN_ALL_TESTS();
  fmt::print("GPU tests: {} passed, {} failed, {} skipped\n", tests.successful_test_count(),
             tests.failed_test_count(), tests.skipped_test_count());
  return result;
}
