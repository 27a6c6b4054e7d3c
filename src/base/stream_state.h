// What a Stream and an Event are on each device.
#pragma once

#include <functional>
#include <memory>

#include "waybill/device.h"

namespace waybill {

class Event::State {
 public:
  virtual ~State() = default;
  virtual bool ready() = 0;
  virtual void wait() = 0;
};

class Stream::State {
 public:
  virtual ~State() = default;
  virtual Device device() const = 0;
  virtual void submit(std::function<void()> work) = 0;
  virtual Event record() = 0;
  virtual void wait(const Event& event) = 0;
  virtual void synchronize() = 0;
  virtual void* native() const = 0;
};

}  // namespace waybill
