#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "comm/local/communicator.h"
#include "comm/local/rendezvous.h"
#include "waybill/comm.h"

namespace waybill {
namespace {

CommOptions checked(CommOptions options) {
  if (options.timeout.count() >= 1) return options;
  throw Error(Code::InvalidValue)
      .at("field", "timeout")
      .expected("at least 1 ms")
      .found(options.timeout.count());
}

}  // namespace

struct LocalGroup::State {
  State(ProcessGroup members, CommOptions comm_options)
      : group(std::move(members)),
        options(checked(comm_options)),
        rendezvous(std::make_shared<local::Rendezvous>(group, options)),
        joined(static_cast<std::size_t>(group.size())) {}

  const ProcessGroup group;
  const CommOptions options;
  const std::shared_ptr<local::Rendezvous> rendezvous;
  std::mutex mutex;
  std::vector<bool> joined;  // [P]
};

namespace {

// What the threads of one run threw.
class Failures {
 public:
  // Errors that another rank's failure led to don't displace their cause.
  void add(std::exception_ptr failure, bool is_cause) {
    std::lock_guard lock(mutex_);
    if (!first_ || (is_cause && !has_cause_)) first_ = std::move(failure);
    has_cause_ = has_cause_ || is_cause;
  }
  const Error no_memory{Code::MemoryExhausted};  // made before memory is short

  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
  bool has_cause_ = false;
};

void run_rank(const std::function<void(Communicator&)>& body, Communicator& comm,
              Failures& failures) {
  try {
    body(comm);
  } catch (const Error& error) {
    failures.add(std::current_exception(), error.code() != Code::PeerAborted);
    comm.abort(error);
  } catch (const std::bad_alloc&) {
    failures.add(std::current_exception(), true);
    comm.abort(failures.no_memory);
  } catch (const std::exception& error) {
    failures.add(std::current_exception(), true);
    comm.abort(Error(Code::PeerAborted).note(error.what()));
  } catch (...) {
    failures.add(std::current_exception(), true);
    comm.abort(Error(Code::PeerAborted).note("an exception of unknown type"));
  }
}

}  // namespace

LocalGroup::LocalGroup(ProcessGroup group, CommOptions options)
    : state_(std::make_shared<State>(std::move(group), options)) {}

LocalGroup::~LocalGroup() = default;

const ProcessGroup& LocalGroup::group() const { return state_->group; }

std::unique_ptr<Communicator> LocalGroup::join(Rank rank) {
  const PeerSlot self = state_->group.peer_of(rank);
  std::lock_guard lock(state_->mutex);
  if (state_->joined[self.index()]) {
    throw Error(Code::InvalidValue).at("rank", rank).note("this rank has joined before");
  }
  state_->joined[self.index()] = true;
  return std::make_unique<local::LocalCommunicator>(self, state_->rendezvous);
}

void LocalGroup::run(const std::function<void(Communicator&)>& body) {
  const ProcessGroup& group = state_->group;
  const auto rendezvous = std::make_shared<local::Rendezvous>(group, state_->options);
  std::vector<std::unique_ptr<Communicator>> ends;
  ends.reserve(static_cast<std::size_t>(group.size()));
  for (std::int32_t peer = 0; peer < group.size(); ++peer) {
    ends.push_back(std::make_unique<local::LocalCommunicator>(PeerSlot{peer}, rendezvous));
  }
  Failures failures;
  {
    std::vector<std::jthread> threads;
    threads.reserve(ends.size());
    const auto start = [&](std::unique_ptr<Communicator>& end) {
      threads.emplace_back([&body, &failures, comm = std::move(end)]() mutable {
        run_rank(body, *comm, failures);
        comm.reset();
      });
    };
    try {
      for (std::unique_ptr<Communicator>& end : ends) start(end);
    } catch (const std::system_error& error) {  // no more threads: those that run must not wait
      rendezvous->abort(PeerSlot{static_cast<std::int32_t>(threads.size())},
                        Error(Code::PeerAborted).note(error.what()));
      failures.add(std::make_exception_ptr(Error(Code::TooManyRanks)
                                               .at("ranks", group.size())
                                               .expected("a thread for every rank")
                                               .found(threads.size())
                                               .note(error.what())),
                   true);
    }
  }
  failures.rethrow();
}

}  // namespace waybill
