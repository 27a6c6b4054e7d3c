#include <gtest/gtest.h>

#include "expert/random_expert.h"
#include "waybill/digest.h"

namespace waybill {
namespace {

TEST(ParameterDigest, IsTheHashOfTheValuesInOrder) {
  Random random(3);
  const RandomExpert expert(DType::bf16, 5, 7, random, true);
  Sha256 sha;
  for (const Elements* e : {&expert.gate, &expert.up, &expert.down, &expert.gate_bias,
                            &expert.up_bias, &expert.down_bias}) {
    sha.update(e->bytes);
  }
  EXPECT_EQ(parameter_digest(expert.weights), sha.finish_hex());
}

TEST(ParameterDigest, DoesNotSeeTheLayout) {
  Random random(3);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    RandomExpert expert(dtype, 5, 7, random);
    const std::string digest = parameter_digest(expert.weights);
    expert.gate.transpose_storage();
    expert.down.transpose_storage();
    expert.refresh();
    EXPECT_EQ(parameter_digest(expert.weights), digest);
  }
}

TEST(ParameterDigest, SeesOneChangedValue) {
  Random random(3);
  RandomExpert expert(DType::f32, 5, 7, random, true);
  const std::string digest = parameter_digest(expert.weights);
  expert.down_bias.set(4, 0, 9);
  EXPECT_NE(parameter_digest(expert.weights), digest);
}

}  // namespace
}  // namespace waybill
