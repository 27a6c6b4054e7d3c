#include <gtest/gtest.h>

#include "expert/random_expert.h"
#include "waybill/error.h"

namespace waybill {
namespace {

// A good input of three segments, [2, 0, 3] rows of 6 elements.
class RunnerInputFaults : public ::testing::Test {
 protected:
  RunnerInputFaults() {
    bundle = ExpertBundle::pack(RandomExpert(DType::f32, 6, 4, random).weights, DType::f32);
    segments.add(*bundle, 2);
    segments.add(*bundle, 0);
    segments.add(*bundle, 3);
  }

  void expect(Code code, const RunnerInput& faulty) {
    const auto runner = make_grouped_runner();
    try {
      runner->run(faulty, workspace, Stream::cpu_inline());
      ADD_FAILURE() << "nothing was thrown instead of " << name(code);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
    }
  }
  RunnerInput good() const { return segments.over(input, output); }

  Random random{5};
  std::shared_ptr<const ExpertBundle> bundle;
  Segments segments;
  Elements input = random_elements(DType::f32, 5, 6, 1, random);
  Elements output = Elements::zeros(DType::f32, 5, 6);
  Workspace workspace{{}, 1 << 20};
};

TEST_F(RunnerInputFaults, OffsetsAndExpertsOfDifferentLength) {
  segments.experts.pop_back();
  expect(Code::DescriptorSlotMismatch, good());
}

TEST_F(RunnerInputFaults, SegmentWithoutAnExpert) {
  segments.experts[2] = nullptr;
  expect(Code::DescriptorSlotMismatch, good());
}

TEST_F(RunnerInputFaults, EmptySegmentNeedsNoExpert) {
  segments.experts[1] = nullptr;
  EXPECT_NO_THROW(run_grouped(good()));
}

TEST_F(RunnerInputFaults, OffsetsThatDoNotAscendFromZero) {
  segments.offsets = {0, 3, 2, 5};
  expect(Code::SegmentOffsetMismatch, good());
  segments.offsets = {1, 2, 2, 5};
  expect(Code::SegmentOffsetMismatch, good());
}

TEST_F(RunnerInputFaults, RowsThatTheTensorsDoNotHave) {
  segments.offsets = {0, 2, 2, 6};
  expect(Code::ShapeMismatch, good());
  segments.gather = {0, 1, 2, 3, 4, 0};
  expect(Code::ShapeMismatch, good());
}

TEST_F(RunnerInputFaults, IndicesOutOfRangeOrOfWrongLength) {
  for (const auto& indices : {std::vector{0, 1, 2, 3}, {0, 1, 2, 3, 5}, {0, -1, 2, 3, 4}}) {
    Segments faulty = segments;
    faulty.gather.assign(indices.begin(), indices.end());
    expect(Code::ShapeMismatch, faulty.over(input, output));
    faulty = segments;
    faulty.scatter.assign(indices.begin(), indices.end());
    expect(Code::ShapeMismatch, faulty.over(input, output));
  }
}

TEST_F(RunnerInputFaults, RowsOfAnotherWidthOrDtype) {
  const Elements narrow = random_elements(DType::f32, 5, 5, 1, random);
  expect(Code::ShapeMismatch, segments.over(narrow, output));
  expect(Code::ShapeMismatch, segments.over(input, narrow));
  expect(Code::ShapeMismatch, segments.over(narrow, narrow));
  const Elements bf16 = random_elements(DType::bf16, 5, 6, 1, random);
  expect(Code::DtypeMismatch, segments.over(bf16, output));
  const Elements f16 = random_elements(DType::f16, 5, 6, 1, random);
  expect(Code::DtypeMismatch, segments.over(f16, output));
  expect(Code::DtypeMismatch, segments.over(input, f16));
}

TEST_F(RunnerInputFaults, RowsWhoseElementsAreNotAdjacent) {
  input.transpose_storage();
  expect(Code::ShapeMismatch, good());
}

TEST_F(RunnerInputFaults, WorkspaceIsToldExactly) {
  const auto runner = make_grouped_runner();
  const std::size_t bytes = runner->workspace_bytes(good());
  workspace = Workspace({}, bytes);
  EXPECT_NO_THROW(runner->run(good(), workspace, Stream::cpu_inline()));
  EXPECT_EQ(workspace.used(), bytes);
  workspace = Workspace({}, bytes - 1 - Workspace::alignment);
  expect(Code::WorkspaceTooSmall, good());
}

TEST_F(RunnerInputFaults, NoRowsIsNoWork) {
  Segments none;
  none.add(*bundle, 0);
  none.add(*bundle, 0);
  const Elements empty = Elements::zeros(DType::f32, 0, 6);
  EXPECT_NO_THROW(run_grouped(none.over(empty, empty)));
  EXPECT_NO_THROW(run_grouped(Segments{}.over(empty, empty)));
}

}  // namespace
}  // namespace waybill
