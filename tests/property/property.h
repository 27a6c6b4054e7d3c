// Property tests: the body draws a case and says what holds of it; a case where it doesn't is
// shrunk to a small one. RapidCheck does both, behind this header because its templates take long
// to compile. RC_PARAMS (its documentation) sets the number of cases and the seed.
#pragma once

#include <gtest/gtest.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace waybill::property {

/// Runs `body` on many drawn cases; false, with the smallest failing case on stderr, if one fails.
bool check(const std::string& name, void (*body)());

/// Ends the case as failed. An exception that leaves the body fails it too.
[[noreturn]] void fail(const char* file, int line, const std::string& what);

/// Prints `text` beside the case if it fails.
void note(const std::string& text);

// The draws, for the body of a property only. Every value of a range is as likely as every other;
// they shrink towards the low end and the first entry.

/// In [low, high).
std::int64_t draw_integer(std::int64_t low, std::int64_t high);

/// Any 64 bits; for seeds.
std::uint64_t draw_bits();

bool draw_bool();

template <std::integral Integer>
Integer draw(Integer low, std::type_identity_t<Integer> high) {
  return static_cast<Integer>(
      draw_integer(static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)));
}

/// A random byte as a character.
inline char draw_char() { return static_cast<char>(draw_integer(0, 256)); }

template <class List>
auto draw_from(const List& list) {
  return *std::next(std::begin(list), draw_integer(0, std::ssize(list)));
}

template <class Element>
Element draw_one_of(std::initializer_list<Element> list) {
  return draw_from(list);
}

/// `count` integers, each in [low, high).
template <std::integral Integer>
std::vector<Integer> draw_integers(std::size_t count, Integer low,
                                   std::type_identity_t<Integer> high) {
  std::vector<Integer> drawn(count);
  for (Integer& each : drawn) each = draw(low, high);
  return drawn;
}

}  // namespace waybill::property

/// PROPERTY(Suite, Name) { draws; HOLDS(condition); }
#define PROPERTY(suite, name)                                                              \
  static void Property_##suite##_##name();                                                 \
  TEST(suite, name) {                                                                      \
    ASSERT_TRUE(::waybill::property::check(#suite "." #name, &Property_##suite##_##name)); \
  }                                                                                        \
  static void Property_##suite##_##name()

#define HOLDS(...)                                                 \
  do {                                                             \
    if (!(__VA_ARGS__)) {                                          \
      ::waybill::property::fail(__FILE__, __LINE__, #__VA_ARGS__); \
    }                                                              \
  } while (false)
