// CUDA streams and events behind Stream and Event.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "base/cuda/call.h"
#include "cuda/gpu.h"
#include "support/fault.h"
#include "waybill/tensor.h"

namespace waybill {
namespace {

using testing::fault;
using testing::gpu;

TEST(CudaStream, RunsHostWorkInOrderAndTellsWhenAPointHasPassed) {
  const Stream stream = Stream::on(gpu);
  EXPECT_EQ(stream.device(), gpu);
  std::atomic<int> order{0};
  int first = 0, second = 0;
  stream.submit([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    first = ++order;
  });
  const Event point = stream.record();
  stream.submit([&] { second = ++order; });
  point.wait();
  EXPECT_EQ(first, 1);
  EXPECT_TRUE(point.ready());
  stream.synchronize();
  EXPECT_EQ(second, 2);
}

TEST(CudaStream, WaitsForEventsOfOtherStreamsOnBothDevices) {
  const Stream one = Stream::on(gpu), two = Stream::on(gpu);
  const Stream worker = Stream::cpu_worker();
  std::atomic<bool> device_work{false}, cpu_work{false};
  one.submit([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    device_work = true;
  });
  worker.submit([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cpu_work = true;
  });
  bool saw_both = false;
  two.wait(one.record());
  two.wait(worker.record());
  two.submit([&] { saw_both = device_work && cpu_work; });
  two.synchronize();
  EXPECT_TRUE(saw_both);
}

TEST(CudaStream, AnExceptionOfHostWorkReachesWhoeverWaits) {
  const Stream stream = Stream::on(gpu);
  bool ran_after = false;
  stream.submit([] { throw std::runtime_error("planted"); });
  stream.submit([&] { ran_after = true; });
  const Event point = stream.record();
  EXPECT_THROW(point.wait(), std::runtime_error);
  EXPECT_THROW(stream.synchronize(), std::runtime_error);
  EXPECT_FALSE(ran_after);
}

TEST(CudaStream, HostWorkIsRefusedDuringCapture) {
  const Stream stream = Stream::on(gpu);
  WAYBILL_CALL(cudaStreamBeginCapture(cuda_stream(stream), cudaStreamCaptureModeThreadLocal));
  EXPECT_EQ(fault([&] { stream.submit([] {}); }).code(), Code::GraphCaptureNotSupported);
  cudaGraph_t graph = nullptr;
  WAYBILL_CALL(cudaStreamEndCapture(cuda_stream(stream), &graph));
  WAYBILL_CALL(cudaGraphDestroy(graph));
}

TEST(CudaDevice, OneThatIsNotThereIsUnavailable) {
  const Device absent{DeviceKind::cuda, device_count(DeviceKind::cuda)};
  EXPECT_EQ(fault([&] { Stream::on(absent); }).code(), Code::DeviceUnavailable);
  EXPECT_EQ(fault([&] { Workspace(absent, 256); }).code(), Code::DeviceUnavailable);
}

TEST(CudaDevice, MoreMemoryThanThereIsIsAFaultAndTheDeviceStaysUsable) {
  const Error error = fault([&] { Workspace(gpu, std::size_t{1} << 46); });
  EXPECT_EQ(error.code(), Code::DeviceFault);
  EXPECT_EQ(error.coordinate("call"), "cudaMalloc");
  EXPECT_EQ(error.found_text(), "cudaErrorMemoryAllocation");
  EXPECT_EQ(Workspace(gpu, 1024).capacity(), 1024U);
}

}  // namespace
}  // namespace waybill
