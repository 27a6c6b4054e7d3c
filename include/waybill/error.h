// The one exception type of the library. Everything that a user, a file or a peer can cause is an
// Error with a stable code; a violated invariant of our own is an assertion instead.
#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace waybill {

// Stable codes, names and numbers. error_codes.def is the single table: number, name, category and
// the contract behind it. 0 is no code.
enum class Code : std::uint16_t {
#define WAYBILL_CODE(number, name, category, contract) name = (number),
#include "waybill/error_codes.def"
#undef WAYBILL_CODE
};

// The code's name, verbatim as in error_codes.def.
std::string_view name(Code code);
// The group a code belongs to, e.g. "counts_and_layout".
std::string_view category(Code code);
// One or two sentences: what must hold, and where the rule comes from.
std::string_view contract(Code code);
// All codes in table order.
std::vector<Code> all_codes();
// False when no code has that name or number; otherwise sets `code`.
bool find_code(std::string_view name, Code& code);
bool find_code(std::int64_t number, Code& code);

// A code, the coordinates of the fault, and what was expected against what was found:
//   throw Error(Code::ShapeMismatch).at("file", path).at("tensor", key).expected("[96,
//   64]").found(shape);
class Error : public std::exception {
 public:
  explicit Error(Code code);

  template <class T>
  Error& at(std::string_view coordinate, const T& value) & {
    add(coordinate, text(value));
    return *this;
  }
  template <class T>
  Error&& at(std::string_view coordinate, const T& value) && {
    return std::move(at(coordinate, value));
  }
  template <class T>
  Error& expected(const T& value) & {
    expected_ = text(value);
    rebuild();
    return *this;
  }
  template <class T>
  Error&& expected(const T& value) && {
    return std::move(expected(value));
  }
  template <class T>
  Error& found(const T& value) & {
    found_ = text(value);
    rebuild();
    return *this;
  }
  template <class T>
  Error&& found(const T& value) && {
    return std::move(found(value));
  }
  // Free text for what the fields can't say: how to mend it, what was tried.
  Error& note(std::string_view text) &;
  Error&& note(std::string_view text) && { return std::move(note(text)); }

  Code code() const noexcept { return code_; }
  const std::vector<std::pair<std::string, std::string>>& where() const noexcept { return where_; }
  // The coordinate's value, or empty.
  std::string_view coordinate(std::string_view name) const noexcept;
  const std::string& expected_text() const noexcept { return expected_; }
  const std::string& found_text() const noexcept { return found_; }
  // "ShapeMismatch: file model.safetensors, tensor w1: expected [96, 64], found [64, 96]"
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  template <class T>
  static std::string text(const T& value) {
    if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      return std::string(std::string_view(value));
    } else if constexpr (std::is_same_v<T, bool>) {
      return value ? "true" : "false";
    } else if constexpr (std::is_arithmetic_v<T>) {
      return number(value);
    } else if constexpr (requires { value.value; }) {
      return text(value.value);  // strong ids and labels
    } else {
      return std::string(name(value));  // enumerations with a name()
    }
  }
  static std::string number(double value);
  static std::string number(float value) { return number(static_cast<double>(value)); }
  template <std::integral T>
  static std::string number(T value) {
    return std::to_string(value);
  }

  void add(std::string_view coordinate, std::string value);
  void rebuild();

  Code code_;
  std::vector<std::pair<std::string, std::string>> where_;
  std::string expected_, found_, note_, what_;
};

}  // namespace waybill
