// Where memory lives and where work runs. A CPU build has the same types as a CUDA build.
// Streams order work; events mark points in it. Source: reference text 0x03D4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace waybill {

enum class DeviceKind : std::uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::int32_t index = 0;

  bool operator==(const Device&) const = default;
};

std::string name(Device device);  // "cpu", "cuda:0"

// Devices of that kind which can be used now: 1 for cpu, 0 for cuda in a build or on a machine
// without it.
std::int32_t device_count(DeviceKind kind);

// A point in a stream. Copies refer to the same point. A default event has already happened.
class Event {
 public:
  Event() = default;

  // True once everything submitted to the stream before record() has run.
  bool ready() const;
  // Blocks the calling thread until ready; rethrows an exception that the work threw.
  void wait() const;

  class State;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

// An ordered queue of work on one device. Copies refer to the same queue; thread-safe.
class Stream {
 public:
  // Runs each submission on the calling thread before submit() returns.
  static Stream cpu_inline();
  // Runs submissions in order on one worker thread of its own.
  static Stream cpu_worker();
  // A queue of its own on `device`: a worker thread's or a new CUDA stream. DeviceUnavailable when
  // the device can't be used.
  static Stream on(Device device);
  // The owner's cudaStream_t, used in place; it must outlive the Stream.
  static Stream borrow(Device device, void* native);

  Device device() const;
  // Host work, run in stream order. On a device stream it runs as a host function, which may not
  // call the device; GraphCaptureNotSupported while the stream is captured.
  void submit(std::function<void()> work) const;
  Event record() const;
  // Work submitted after this call runs after `event`; the caller doesn't block on a worker or
  // device stream.
  void wait(const Event& event) const;
  // Blocks until the queue is empty; rethrows the first exception of the work.
  void synchronize() const;
  // The device's own stream (cudaStream_t), or null on CPU.
  void* native() const;

  class State;
  explicit Stream(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

}  // namespace waybill
