// The recorded blocks of a tiny checkpoint under tests/data/checkpoints.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace waybill::testing {

// tests/data where it was when the tests were built, or WAYBILL_TEST_DATA of the environment, for
// programs that run on another machine.
inline std::string test_data() {
  const char* moved = std::getenv("WAYBILL_TEST_DATA");
  return moved != nullptr ? moved : WAYBILL_TEST_DATA;
}

inline std::string checkpoint_directory(const std::string& family) {
  return test_data() + "/checkpoints/" + family;
}

// golden.safetensors of one family; tensors are named "<block>.<what>".
class Recording {
 public:
  explicit Recording(const std::string& family)
      : file_(SafetensorsFile::open(checkpoint_directory(family) + "/golden.safetensors")) {}

  template <class T>
  std::vector<T> read(const std::string& name) const {
    const SafetensorsTensor* tensor = file_.find(name);
    EXPECT_NE(tensor, nullptr) << name;
    if (tensor == nullptr) return {};
    EXPECT_EQ(size_of(tensor->dtype), sizeof(T)) << name;
    std::vector<T> values(tensor->bytes.size() / sizeof(T));
    std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
    return values;
  }
  std::vector<float> hidden(const std::string& block) const {
    return read<float>(block + ".block_in");
  }

 private:
  SafetensorsFile file_;
};

}  // namespace waybill::testing
