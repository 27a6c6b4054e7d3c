// One rank's end of a group whose ranks are threads of this process.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "comm/local/rendezvous.h"
#include "waybill/comm.h"

namespace waybill::local {

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(PeerSlot self, std::shared_ptr<Rendezvous> rendezvous);
  LocalCommunicator(const LocalCommunicator&) = delete;
  LocalCommunicator& operator=(const LocalCommunicator&) = delete;
  ~LocalCommunicator() override;

  const ProcessGroup& group() const override { return rendezvous_->group(); }
  PeerSlot self() const override { return self_; }
  void all_gather(std::string_view phase, std::span<const std::byte> mine,
                  std::span<std::byte> all) override;
  Completion all_to_all_v(const AllToAllV& exchange) override;
  void withdraw(std::string_view phase) noexcept override;
  void pause_deadline() noexcept override { rendezvous_->pause_deadline(self_); }
  void resume_deadline() noexcept override { rendezvous_->resume_deadline(self_); }
  void abort(const Error& cause) noexcept override;

 private:
  const PeerSlot self_;
  std::shared_ptr<Rendezvous> rendezvous_;
};

}  // namespace waybill::local
