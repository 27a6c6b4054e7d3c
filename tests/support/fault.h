// What a call throws, for tests of faults.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "waybill/error.h"

namespace waybill::testing {

// The Error that `call` throws; the test fails when it throws none.
template <class Call>
Error fault(Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(Code::UsageError);
}

template <class Call>
Code code_of(Call&& call) {
  return fault(std::forward<Call>(call)).code();
}

}  // namespace waybill::testing
