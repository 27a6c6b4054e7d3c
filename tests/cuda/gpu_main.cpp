// Runs the GPU tests, or says how many it leaves out where there is no GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string_view>

#include "cuda/gpu.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (waybill::device_count(waybill::DeviceKind::cuda) == 0) {
    fmt::print("0 passed, 0 failed, {} skipped (no GPU)\n",
               ::testing::UnitTest::GetInstance()->total_test_count());
    return 0;
  }
  if (argc == 2 && std::string_view(argv[1]) == "--hash") {
    fmt::print("{}\n", waybill::testing::output_hash());
    return 0;
  }
  const int result = RUN_ALL_TESTS();
  const auto& tests = *::testing::UnitTest::GetInstance();
  fmt::print("{} passed, {} failed, 0 skipped\n", tests.successful_test_count(),
             tests.failed_test_count());
  return result;
}
