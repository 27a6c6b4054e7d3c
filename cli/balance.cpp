// waybill balance: better placements from measured loads, and what they cost.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <thread>

#include "balance_result.h"
#include "command.h"
#include "command_line.h"
#include "waybill/error.h"
#include "waybill/thread_pool.h"

namespace waybill::cli {
namespace {

std::int32_t threads_of(const BalanceCommand& command) {
  const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  return static_cast<std::int32_t>(command.threads > 0 ? command.threads : cores);
}

void balance_files(BalanceCommand& command) {
  const FileFormat format = format_of("--format", command.format);
  command.format = name(format);
  BalanceProblem problem = resolve(command);
  ThreadPool pool(threads_of(command));
  problem.options.pool = &pool;
  const BalanceReport report = solve(problem);
  if (!command.out.empty()) {
    write_placement_table(command.out, format, table_of(problem, report));
  }
  command.json ? print_json(command, problem, report) : print_text(command, problem, report);
}

Exit run_balance(BalanceCommand& command) {
  if (command.loads.empty()) {
    throw Error(Code::UsageError)
        .at("command", "waybill balance")
        .expected("LOADS, a file or a folder")
        .found("none");
  }
  try {
    balance_files(command);
  } catch (Error& error) {
    const auto names = [&](std::string_view coordinate) {
      return !error.coordinate(coordinate).empty();
    };
    if (names("loads")) {
      error.note("the placement in force stays");
    } else if (!names("file") && !names("command")) {  // what the options ask for can't be had
      error.at("command", "waybill balance");
    }
    throw;
  }
  return Exit::success;
}

void add_pay_off(Subcommand& command, BalanceCommand& options) {
  const char* group = "Whether moving pays";
  constexpr Range bytes{1, std::uint64_t{1} << 50U};
  constexpr RealRange positive{1e-6, 1e12};
  command.number("--expert-bytes", options.expert_bytes, bytes, "Parameters of one expert", group);
  command.word("--shape", options.shape, "D,FF,DTYPE",
               "Instead: three matrices of D x FF, e.g. 7168,2048,f8_e4m3", group);
  command.real("--link-gbps", options.link_gbps, positive, "Gigabits a second into each rank",
               group);
  command.real("--step-us", options.step_us, positive,
               "All MoE layers of one step, under the placement in force", group);
  command.number("--horizon", options.horizon, Range{1, 1'000'000'000'000},
                 "Steps until the next plan", group);
  command.real("--min-gain", options.min_gain, RealRange{0, 1},
               "Least fall of the largest rank, without the above", group);
  command.number("--max-moves", options.max_moves, Range{0, 1 << 20},
                 "Most slots of a layer that change", group);
  command.exclude("--shape", "--expert-bytes");
  for (const char* a : {"--link-gbps", "--step-us", "--horizon"}) {
    for (const char* b : {"--link-gbps", "--step-us", "--horizon"}) {
      if (a != b) command.need(a, b);
    }
    command.exclude(a, "--min-gain");
    command.need(a, "--from");
  }
  command.need("--max-moves", "--from");
}

void add_cluster(Subcommand& command, BalanceCommand& options) {
  const char* group = "Ranks";
  constexpr Range ranks{1, 4096};
  command.number("--ranks", options.ranks, ranks, "Expert-parallel ranks; default as in force",
                 group);
  command.number("--nodes", options.nodes, ranks, "Nodes that the ranks divide over evenly", group);
  command.word("--topology", options.topology, "FILE",
               "Topology manifest instead of --ranks and --nodes", group);
  command.number_or("--slots", options.slots, Range{1, 1 << 20}, "auto", auto_slots,
                    "Slots of a layer over all ranks; default as in force, else auto", group);
  command.number("--memory-bytes", options.memory_bytes, Range{1, std::uint64_t{1} << 50U},
                 "That each rank has for the experts of all layers", group);
  command.number("--groups", options.groups, Range{1, 1 << 16},
                 "Contiguous blocks of experts that like a node of their own", group);
  command.word("--locality", options.locality, "NAME",
               "auto; none; soft: a copy in the group's node; hard: all copies", group);
  command.word("--lost-rank", options.lost_rank, "LIST",
               "Ranks that are gone, e.g. 3: what to reload, and a plan for the others", group);
  command.exclude("--topology", "--ranks");
  command.exclude("--topology", "--nodes");
  command.need("--lost-rank", "--from");
}

}  // namespace

void add_balance(CommandLine& line) {
  auto options = std::make_shared<BalanceCommand>();
  options->format = name(FileFormat::waybill);
  Subcommand command =
      line.add("balance", "A better placement from measured loads: what it gives, moves and costs.",
               [options] { return run_balance(*options); });
  command.positional("LOADS", options->loads,
                     "Load statistics of any engine: a file or a folder (docs/balance.md)");
  command.word("--from", options->from, "FILE", "The placement in force, of any format");
  command.word("--out", options->out, "FILE", "Write the placement");
  command.word("--format", options->format, "NAME",
               "Of --out: waybill, sglang, vllm, ascend, tensorrt_llm, eplb");
  command.word("--solver", options->solver, "NAME",
               "waybill; eplb: the public solver bit for bit; exact: proven, small sizes");
  command.real("--exact-seconds", options->exact_seconds, RealRange{0.001, 86'400},
               "That solver exact may take for a layer");
  command.number("--threads", options->threads, Range{1, 1024},
                 "Layers at a time; the result doesn't depend on it; default one a core");
  command.flag("--explain", options->explain, "Every term of the objective, and why, by layer");
  command.flag("--json", options->json, "Machine-readable output on stdout");
  command.need("--format", "--out");
  add_cluster(command, *options);
  add_pay_off(command, *options);
  add_file_options(command, options->files);
  add_window_options(command, options->windows);
  command.example(
      "waybill balance loads.json --ranks 32 --slots 288 --out plan.json\n"
      "         waybill balance loads.json --from plan.json --explain");
}

}  // namespace waybill::cli
