// The grouped runner. Rows are taken in waves that fit the workspace. A wave is cut into parts
// (rows of one expert) and a part into row blocks (rows of one kernel call). A wave has three
// phases: rows into tiles; gate·up·activation into tiles; down into the output rows. Threads share
// a phase by (part, run of panels), so a part reads every weight once, whatever their number.
#include <algorithm>
#include <array>
#include <cassert>

#include "expert/kernels.h"
#include "expert/packed.h"
#include "expert/panel.h"
#include "expert/runner_input.h"

namespace waybill {
namespace {

constexpr std::int64_t wave_rows = 512;
constexpr std::int64_t part_rows = 96;     // whose tiles stay in a second-level cache
constexpr std::int64_t block_depth = 256;  // k steps of a panel that stay in a first-level cache
constexpr std::int64_t most_block_rows = 16;
constexpr std::int64_t tasks_per_thread = 16;  // so that unequal parts still balance

// `rows` cut into blocks of at most `most`, as evenly as possible.
class RowBlocks {
 public:
  struct Block {
    std::int64_t first, rows;
  };

  RowBlocks(std::int64_t rows, std::int64_t most)
      : count_((rows + most - 1) / most), rows_(rows / count_), longer_(rows % count_) {}

  std::int64_t count() const { return count_; }
  Block operator[](std::int64_t b) const {
    return {b * rows_ + std::min(b, longer_), rows_ + (b < longer_ ? 1 : 0)};
  }

 private:
  std::int64_t count_, rows_, longer_;
};

struct Part {
  const ExpertBundle* expert;
  std::int64_t first_row;  // expert row
  std::int64_t rows;
  float* x;  // tiles of the row blocks, one after the other: [d][block rows]
  float* h;  // [ff][block rows]
};

// What a run takes from the workspace: room for one wave.
struct Pieces {
  std::span<Part> parts;
  std::span<float> x, h;
};

struct PieceSizes {
  std::size_t parts, x, h;

  explicit PieceSizes(const RunnerInput& input)
      : parts(static_cast<std::size_t>(std::min(rows(input), wave_rows))),
        x(parts * static_cast<std::size_t>(input.input.shape[1])),
        h(parts * static_cast<std::size_t>(largest_ff(input))) {}

  static std::int64_t largest_ff(const RunnerInput& input) {
    std::int64_t ff = 0;
    for (std::size_t q = 0; q < input.experts.size(); ++q) {
      if (input.offsets[q] < input.offsets[q + 1]) ff = std::max(ff, input.experts[q]->ff());
    }
    return ff;
  }
};

class GroupedRun {
 public:
  GroupedRun(const RunnerInput& input, const Pieces& pieces, ThreadPool* pool)
      : input_(input), pieces_(pieces), pool_(pool), kernels_(cpu_kernels()) {
    assert(kernels_.block_rows <= most_block_rows);
  }

  void run() {
    while (next_wave()) {
      for_each_task(1, [this](const Part& part, std::int64_t, std::int64_t) { load(part); });
      project(Projection::gate_up);
      project(Projection::down);
    }
  }

 private:
  // Fills wave_ with the parts that follow; false when no row is left.
  bool next_wave() {
    std::size_t count = 0;
    std::int64_t rows = 0;
    float* x = pieces_.x.data();
    float* h = pieces_.h.data();
    for (; segment_ < input_.experts.size(); ++segment_) {
      for (std::int64_t left; (left = input_.offsets[segment_ + 1] - row_) > 0;) {
        const std::int64_t n = RowBlocks(left, part_rows)[0].rows;
        if (rows + n > wave_rows) return finish_wave(count);
        const ExpertBundle* expert = input_.experts[segment_];
        pieces_.parts[count++] = {expert, row_, n, x, h};
        x += n * expert->hidden();
        h += n * expert->ff();
        rows += n;
        row_ += n;
      }
    }
    return finish_wave(count);
  }
  bool finish_wave(std::size_t parts) {
    wave_ = pieces_.parts.first(parts);
    return parts > 0;
  }

  // body(part, i, n) for every part of the wave and i in [0, n).
  template <class Body>
  void for_each_task(std::int64_t tasks_per_part, const Body& body) const {
    const auto task = [&](std::int32_t t) {
      const std::int64_t part = t / tasks_per_part;
      body(wave_[static_cast<std::size_t>(part)], t - part * tasks_per_part, tasks_per_part);
    };
    const auto tasks = static_cast<std::int32_t>(std::ssize(wave_) * tasks_per_part);
    if (pool_ != nullptr && pool_->threads() > 1 && tasks > 1) {
      pool_->run(tasks, task);
    } else {
      for (std::int32_t t = 0; t < tasks; ++t) task(t);
    }
  }

  void project(Projection projection) const {
    std::int64_t runs = 1;
    if (pool_ != nullptr && pool_->threads() > 1) {
      runs = pool_->threads() * tasks_per_thread / std::ssize(wave_) + 1;
    }
    for_each_task(runs, [&](const Part& part, std::int64_t run, std::int64_t count) {
      const std::int64_t panels = shape_of(part, projection).count;
      for (std::int64_t p = panels * run / count; p < panels * (run + 1) / count; ++p) {
        project_panel(part, projection, p);
      }
    });
  }

  void load(const Part& part) const {
    const std::int64_t d = part.expert->hidden();
    std::array<const std::byte*, most_block_rows> rows;
    const RowBlocks blocks = blocks_of(part);
    for (std::int64_t b = 0; b < blocks.count(); ++b) {
      const auto [first, n] = blocks[b];
      for (std::int64_t r = 0; r < n; ++r) {
        rows[static_cast<std::size_t>(r)] =
            row_of(input_.input, input_.gather, part.first_row + first + r);
      }
      kernels_.load_tile(std::span(rows).first(static_cast<std::size_t>(n)), input_.input.dtype, d,
                         part.x + first * d);
    }
  }

  void project_panel(const Part& part, Projection projection, std::int64_t panel) const {
    alignas(64) std::array<float, part_rows * panel_columns> acc;
    std::fill_n(acc.data(), part.rows * panel_columns, 0.0F);
    multiply_panel(part, projection, panel, acc.data());

    std::array<float, panel_columns> bias_values;
    const float* bias = bias_of(*part.expert, projection, panel, bias_values.data());
    const RowBlocks blocks = blocks_of(part);
    for (std::int64_t b = 0; b < blocks.count(); ++b) {
      const RowBlocks::Block block = blocks[b];
      const float* sums = acc.data() + block.first * panel_columns;
      if (projection == Projection::gate_up) {
        activate(part, block, panel, sums, bias);
      } else {
        store(part, block, panel, sums, bias);
      }
    }
  }

  // acc[rows][32] += tiles · panel, block_depth steps at a time over all row blocks.
  void multiply_panel(const Part& part, Projection projection, std::int64_t panel,
                      float* acc) const {
    alignas(64) std::array<float, block_depth * panel_columns> widened;
    const ExpertBundle& expert = *part.expert;
    const PanelShape shape = shape_of(part, projection);
    const float* tiles = projection == Projection::gate_up ? part.x : part.h;
    const RowBlocks blocks = blocks_of(part);
    const bool direct_bf16 =
        !expert.in_place() && expert.dtype() == DType::bf16 && blocks.count() == 1;
    const auto multiply = direct_bf16 ? kernels_.multiply_bf16 : kernels_.multiply_f32;

    for (std::int64_t k = 0; k < shape.depth; k += block_depth) {
      const std::int64_t depth = std::min(block_depth, shape.depth - k);
      const std::byte* steps = reinterpret_cast<const std::byte*>(widened.data());
      std::span<const std::byte> ahead(steps, 0);
      if (expert.in_place()) {
        read_panel(expert.weights(), projection, panel, k, depth, expert.dtype(), widened.data());
      } else {
        const auto step_bytes = panel_columns * static_cast<std::int64_t>(size_of(expert.dtype()));
        const std::int64_t step = panel * shape.depth + k;
        const std::byte* packed = expert.packed()->panels(projection) + step * step_bytes;
        const std::int64_t steps_after = shape.count * shape.depth - step - depth;
        ahead = {packed + depth * step_bytes,
                 static_cast<std::size_t>(std::min(depth, steps_after) * step_bytes)};
        if (direct_bf16 || expert.dtype() == DType::f32) {
          steps = packed;
        } else {
          kernels_.widen(packed, depth, widened.data());
        }
      }
      for (std::int64_t b = 0; b < blocks.count(); ++b) {
        const auto [first, n] = blocks[b];
        const std::size_t share = ahead.size() / static_cast<std::size_t>(blocks.count());
        multiply(tiles + first * shape.depth + k * n, n, steps, depth, acc + first * panel_columns,
                 ahead.subspan(static_cast<std::size_t>(b) * share, share));
      }
    }
  }

  void activate(const Part& part, RowBlocks::Block block, std::int64_t panel, const float* sums,
                const float* bias) const {
    const PanelShape shape = shape_of(part, Projection::gate_up);
    float* tile = part.h + block.first * part.expert->ff() + panel * shape.width * block.rows;
    kernels_.activate(sums, block.rows, bias, shape.columns_of(panel), input_.activation,
                      part.expert->dtype(), tile);
  }

  void store(const Part& part, RowBlocks::Block block, std::int64_t panel, const float* sums,
             const float* bias) const {
    const PanelShape shape = shape_of(part, Projection::down);
    const DType dtype = input_.output.dtype;
    const std::size_t column = static_cast<std::size_t>(panel * shape.width) * size_of(dtype);
    std::array<std::byte*, most_block_rows> rows;
    for (std::int64_t r = 0; r < block.rows; ++r) {
      rows[static_cast<std::size_t>(r)] =
          row_of(input_.output, input_.scatter, part.first_row + block.first + r) + column;
    }
    kernels_.store(sums, bias, shape.columns_of(panel), dtype,
                   std::span(rows).first(static_cast<std::size_t>(block.rows)));
  }

  static PanelShape shape_of(const Part& part, Projection projection) {
    return panel_shape(part.expert->hidden(), part.expert->ff(), projection);
  }
  RowBlocks blocks_of(const Part& part) const { return {part.rows, kernels_.block_rows}; }

  static const float* bias_of(const ExpertBundle& expert, Projection projection, std::int64_t panel,
                              float* values) {
    if (!expert.in_place()) {
      const float* bias = expert.packed()->bias(projection);
      return bias == nullptr ? nullptr : bias + panel * panel_columns;
    }
    return read_panel_bias(expert.weights(), projection, panel, values) ? values : nullptr;
  }

  // The row of `tensor` that expert row r stands for.
  static std::byte* row_of(const TensorView& tensor, std::span<const std::int32_t> indices,
                           std::int64_t r) {
    const std::int64_t row = indices.empty() ? r : indices[static_cast<std::size_t>(r)];
    return static_cast<std::byte*>(tensor.data) +
           row * tensor.strides[0] * static_cast<std::int64_t>(size_of(tensor.dtype));
  }

  const RunnerInput input_;
  const Pieces pieces_;
  ThreadPool* const pool_;
  const CpuKernels& kernels_;
  std::size_t segment_ = 0;  // where the next wave begins
  std::int64_t row_ = 0;
  std::span<const Part> wave_;
};

class GroupedRunner final : public ExpertRunner {
 public:
  std::string_view name() const override { return "grouped"; }

  std::size_t workspace_bytes(const RunnerInput& input) const override {
    check(input);
    const PieceSizes sizes(input);
    return Workspace::padded(sizes.parts * sizeof(Part)) +
           Workspace::padded(sizes.x * sizeof(float)) + Workspace::padded(sizes.h * sizeof(float));
  }

  Event run(const RunnerInput& input, Workspace& workspace, const Stream& stream,
            ThreadPool* pool) override {
    check(input);
    const PieceSizes sizes(input);
    const Pieces pieces{workspace.take_n<Part>(sizes.parts), workspace.take_n<float>(sizes.x),
                        workspace.take_n<float>(sizes.h)};
    stream.submit([=] { GroupedRun(input, pieces, pool).run(); });
    return stream.record();
  }
};

}  // namespace

std::unique_ptr<ExpertRunner> make_grouped_runner() { return std::make_unique<GroupedRunner>(); }

}  // namespace waybill
