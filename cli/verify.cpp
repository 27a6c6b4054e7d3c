// waybill verify: files checked by the guards that loading them has, every fault listed.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "command_line.h"
#include "verify_result.h"
#include "waybill/error.h"

namespace waybill::cli {
namespace {

struct VerifyOptions {
  std::vector<std::string> files;
  bool json = false;
};

Exit verify(const VerifyOptions& options) {
  if (options.files.empty()) {
    throw Error(Code::UsageError)
        .at("command", "waybill verify")
        .expected("FILE...")
        .found("no file");
  }
  const std::vector<VerifiedFile> files = verify_files(options.files);
  options.json ? print_json(files) : print_text(files);
  const auto unknown = [](const VerifiedFile& file) { return !file.kind; };
  const auto wrong = [](const VerifiedFile& file) { return !file.violations.empty(); };
  if (std::ranges::any_of(files, unknown)) return Exit::usage;
  return std::ranges::any_of(files, wrong) ? Exit::violation : Exit::success;
}

}  // namespace

void add_verify(CommandLine& line) {
  auto options = std::make_shared<VerifyOptions>();
  Subcommand command = line.add(
      "verify",
      "Check manifests of placements, topologies and groups, loads and placements of any system, "
      "safetensors files, their index, config.json, or checkpoint folders, before anything loads "
      "them. Files that are given together are also checked against one another.",
      [options] { return verify(*options); });
  command.positionals("FILE", options->files,
                      "Files of any of these kinds; each tells its own kind");
  command.flag("--json", options->json, "Machine-readable output");
  command.example("waybill verify topology.json groups.json placement.json");
}

}  // namespace waybill::cli
