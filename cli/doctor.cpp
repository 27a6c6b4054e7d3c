// waybill doctor: what this machine has, and which path runs on it.
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "base/device_backend.h"
#include "command.h"
#include "command_line.h"
#include "text.h"
#include "waybill/checkpoint.h"
#include "waybill/expert.h"

namespace waybill::cli {
namespace {

struct Machine {
  std::string processor;
  unsigned cores = std::thread::hardware_concurrency();
  std::int64_t memory_bytes = 0;
  std::int64_t available_bytes = 0;
  std::string kernels{cpu_kernel_target()};
  bool cuda_built = WAYBILL_WITH_CUDA != 0;
  int cuda_devices = cuda_backend().devices();
  bool mpi_built = WAYBILL_WITH_MPI != 0;
};

// The text behind "key   : " in a file of such lines.
std::optional<std::string> value_in(const char* file, std::string_view key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t first = line.find_first_not_of(" \t", colon + 1);
    return first == std::string::npos ? std::string() : line.substr(first);
  }
  return std::nullopt;
}

std::int64_t memory(std::string_view key) {
  const auto text = value_in("/proc/meminfo", key);
  return text ? std::strtoll(text->c_str(), nullptr, 10) * 1024 : 0;
}

Machine examine() {
  Machine machine;
  machine.processor = value_in("/proc/cpuinfo", "model name").value_or("unknown");
  machine.memory_bytes = memory("MemTotal");
  machine.available_bytes = memory("MemAvailable");
  return machine;
}

std::string cuda_text(const Machine& machine) {
  if (!machine.cuda_built) return "not built (no nvcc when this was compiled)";
  return fmt::format("built; {} usable device{}", machine.cuda_devices,
                     machine.cuda_devices == 1 ? "" : "s");
}

void print_text(const Machine& machine) {
  std::string text;
  text += field("waybill", fmt::format("{}, {} build, g++ {}", WAYBILL_VERSION, WAYBILL_BUILD_TYPE,
                                       __VERSION__));
  text += field("processor", machine.processor);
  text += field("cores", fmt::format("{}", machine.cores));
  text += field("memory", fmt::format("{}, {} available", bytes_text(machine.memory_bytes),
                                      bytes_text(machine.available_bytes)));
  text += field("kernels", fmt::format("{} (the best that this processor has)", machine.kernels));
  text += field("cuda", cuda_text(machine));
  text += field("mpi", machine.mpi_built ? "found when this was compiled; no transport uses it yet"
                                         : "not built");
  text += field("families", fmt::format("{}", fmt::join(family_names(), ", ")));
  text += field("libraries", fmt::format("fmt {}, nlohmann-json {}.{}.{}", FMT_VERSION,
                                         NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                         NLOHMANN_JSON_VERSION_PATCH));
  text += field("runs", fmt::format("--device cpu, --transport local (a thread a rank), --exchange "
                                    "flat, --runner grouped, {} kernels",
                                    machine.kernels));
  write_text(text);
}

void print_json(const Machine& machine) {
  write_json({{"version", WAYBILL_VERSION},
              {"build_type", WAYBILL_BUILD_TYPE},
              {"processor", machine.processor},
              {"cores", machine.cores},
              {"memory_bytes", machine.memory_bytes},
              {"available_bytes", machine.available_bytes},
              {"kernels", machine.kernels},
              {"cuda", {{"built", machine.cuda_built}, {"devices", machine.cuda_devices}}},
              {"mpi", {{"built", machine.mpi_built}}},
              {"families", family_names()},
              {"path",
               {{"device", "cpu"},
                {"transport", "local"},
                {"exchange", "flat"},
                {"runner", "grouped"},
                {"kernels", machine.kernels}}}});
}

}  // namespace

void add_doctor(CommandLine& line) {
  auto json = std::make_shared<bool>(false);
  Subcommand command =
      line.add("doctor", "What this machine has, and which path runs on it.", [json] {
        const Machine machine = examine();
        *json ? print_json(machine) : print_text(machine);
        return Exit::success;
      });
  command.flag("--json", *json, "Machine-readable output");
  command.example("waybill doctor");
}

}  // namespace waybill::cli
