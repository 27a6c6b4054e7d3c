// Instructions of sm_90a: barriers in shared memory that copies complete, the tensor copy engine,
// products of a warpgroup and what orders them.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace waybill::device {

__device__ inline void init_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes initialised barriers visible to the copy engine.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives and lets the phase wait for `bytes` of the copy engine too.
__device__ inline void arrive_expecting(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
               "r"(bytes)
               : "memory");
}
// Arrives once this thread's earlier copy_16 have landed.
__device__ inline void arrive_when_copied(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
// Waits until the phase of this parity is complete.
__device__ inline void wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n .reg .pred done;\n"
      "again:\n mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Lets products and the copy engine see what ordinary accesses ordered before have written.
__device__ inline void publish_to_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
// A box of a tensor map to shared memory; its bytes count towards the barrier's phase.
__device__ inline void copy_box_2d(std::uint32_t to, const CUtensorMap& map, std::uint32_t barrier,
                                   int x0, int x1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x0), "r"(x1)
      : "memory");
}
__device__ inline void copy_box_3d(std::uint32_t to, const CUtensorMap& map, std::uint32_t barrier,
                                   int x0, int x1, int x2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2)
      : "memory");
}
__device__ inline void copy_box_5d(std::uint32_t to, const CUtensorMap& map, std::uint32_t barrier,
                                   int x0, int x1, int x2, int x3, int x4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
      : "memory");
}

template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Waits for the other warps of this warpgroup.
__device__ inline void join_warpgroup(int warpgroup) {
  asm volatile("bar.sync %0, 128;" ::"r"(warpgroup + 1) : "memory");
}

// An 8x8 matrix of 16-bit elements, transposed; lane i < 8 gives the address of its column i.
__device__ inline void store_matrix_transposed(std::uint32_t to, std::uint32_t pair) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(to), "r"(pair)
               : "memory");
}

// A matrix of 128-byte rows along K whose 16-byte chunks are permuted within groups of 8 rows (the
// copy engine's 128-byte swizzle), at a multiple of 1024 bytes.
__device__ inline std::uint64_t matrix_descriptor(std::uint32_t address) {
  constexpr std::uint64_t eight_rows = 1024 / 16, swizzle_128 = 1;
  return (address & 0x3ffffU) >> 4 | std::uint64_t{1} << 16 | eight_rows << 32 | swizzle_128 << 62;
}

__device__ inline void open_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most `kPending` groups of products are running.
template <int kPending>
__device__ inline void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

#define WAYBILL_SUMS(i)                                                                 \
  "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), \
      "+f"(sum[i + 5]), "+f"(sum[i + 6]), "+f"(sum[i + 7])
#define WAYBILL_SUMS_16 WAYBILL_SUMS(0)
#define WAYBILL_SUMS_32 WAYBILL_SUMS_16, WAYBILL_SUMS(8)
#define WAYBILL_SUMS_48 WAYBILL_SUMS_32, WAYBILL_SUMS(16)
#define WAYBILL_SUMS_64 WAYBILL_SUMS_48, WAYBILL_SUMS(24)
#define WAYBILL_SUMS_80 WAYBILL_SUMS_64, WAYBILL_SUMS(32)
#define WAYBILL_SUMS_96 WAYBILL_SUMS_80, WAYBILL_SUMS(40)
#define WAYBILL_SUMS_112 WAYBILL_SUMS_96, WAYBILL_SUMS(48)
#define WAYBILL_SUMS_128 WAYBILL_SUMS_112, WAYBILL_SUMS(56)
#define WAYBILL_SUMS_144 WAYBILL_SUMS_128, WAYBILL_SUMS(64)
#define WAYBILL_SUMS_160 WAYBILL_SUMS_144, WAYBILL_SUMS(72)
#define WAYBILL_SUMS_176 WAYBILL_SUMS_160, WAYBILL_SUMS(80)
#define WAYBILL_SUMS_192 WAYBILL_SUMS_176, WAYBILL_SUMS(88)
#define WAYBILL_SUMS_208 WAYBILL_SUMS_192, WAYBILL_SUMS(96)
#define WAYBILL_SUMS_224 WAYBILL_SUMS_208, WAYBILL_SUMS(104)
#define WAYBILL_SUMS_240 WAYBILL_SUMS_224, WAYBILL_SUMS(112)
#define WAYBILL_SUMS_256 WAYBILL_SUMS_240, WAYBILL_SUMS(120)
#define WAYBILL_NAMES_16 "%0,%1,%2,%3,%4,%5,%6,%7"
#define WAYBILL_NAMES_32 WAYBILL_NAMES_16 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define WAYBILL_NAMES_48 WAYBILL_NAMES_32 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define WAYBILL_NAMES_64 WAYBILL_NAMES_48 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define WAYBILL_NAMES_80 WAYBILL_NAMES_64 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define WAYBILL_NAMES_96 WAYBILL_NAMES_80 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define WAYBILL_NAMES_112 WAYBILL_NAMES_96 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define WAYBILL_NAMES_128 WAYBILL_NAMES_112 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define WAYBILL_NAMES_144 WAYBILL_NAMES_128 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define WAYBILL_NAMES_160 WAYBILL_NAMES_144 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define WAYBILL_NAMES_176 WAYBILL_NAMES_160 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define WAYBILL_NAMES_192 WAYBILL_NAMES_176 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define WAYBILL_NAMES_208 WAYBILL_NAMES_192 ",%96,%97,%98,%99,%100,%101,%102,%103"
#define WAYBILL_NAMES_224 WAYBILL_NAMES_208 ",%104,%105,%106,%107,%108,%109,%110,%111"
#define WAYBILL_NAMES_240 WAYBILL_NAMES_224 ",%112,%113,%114,%115,%116,%117,%118,%119"
#define WAYBILL_NAMES_256 WAYBILL_NAMES_240 ",%120,%121,%122,%123,%124,%125,%126,%127"
#define WAYBILL_PRODUCT(n, a, b)                                                \
  if constexpr (kColumns == n) {                                                \
    asm volatile(                                                               \
        "{\n .reg .pred accumulate;\n setp.eq.u32 accumulate, 0, 0;\n"          \
        "wgmma.mma_async.sync.aligned.m64n" #n                                  \
        "k16.f32.bf16.bf16 "                                                    \
        "{" WAYBILL_NAMES_##n "}, %" #a ", %" #b ", accumulate, 1, 1, 0, 0;\n}" \
        : WAYBILL_SUMS_##n                                                      \
        : "l"(rows), "l"(columns));                                             \
  }

// sum [64, kColumns] += rows [64, 16] * columns [kColumns, 16] transposed, in FP32, asynchronously;
// the first kColumns / 2 sums of a thread are in use, laid out as m16n8k16 lays out a warp's.
template <int kColumns, int kSums>
__device__ inline void multiply_add_async(float (&sum)[kSums], std::uint64_t rows,
                                          std::uint64_t columns) {
  static_assert(kColumns % 16 == 0 && kColumns / 2 <= kSums);
  WAYBILL_PRODUCT(16, 8, 9)
  WAYBILL_PRODUCT(32, 16, 17)
  WAYBILL_PRODUCT(48, 24, 25)
  WAYBILL_PRODUCT(64, 32, 33)
  WAYBILL_PRODUCT(80, 40, 41)
  WAYBILL_PRODUCT(96, 48, 49)
  WAYBILL_PRODUCT(112, 56, 57)
  WAYBILL_PRODUCT(128, 64, 65)
  WAYBILL_PRODUCT(144, 72, 73)
  WAYBILL_PRODUCT(160, 80, 81)
  WAYBILL_PRODUCT(176, 88, 89)
  WAYBILL_PRODUCT(192, 96, 97)
  WAYBILL_PRODUCT(208, 104, 105)
  WAYBILL_PRODUCT(224, 112, 113)
  WAYBILL_PRODUCT(240, 120, 121)
  WAYBILL_PRODUCT(256, 128, 129)
}

#undef WAYBILL_PRODUCT
#undef WAYBILL_SUMS
#undef WAYBILL_SUMS_16
#undef WAYBILL_SUMS_32
#undef WAYBILL_SUMS_48
#undef WAYBILL_SUMS_64
#undef WAYBILL_SUMS_80
#undef WAYBILL_SUMS_96
#undef WAYBILL_SUMS_112
#undef WAYBILL_SUMS_128
#undef WAYBILL_SUMS_144
#undef WAYBILL_SUMS_160
#undef WAYBILL_SUMS_176
#undef WAYBILL_SUMS_192
#undef WAYBILL_SUMS_208
#undef WAYBILL_SUMS_224
#undef WAYBILL_SUMS_240
#undef WAYBILL_SUMS_256
#undef WAYBILL_NAMES_16
#undef WAYBILL_NAMES_32
#undef WAYBILL_NAMES_48
#undef WAYBILL_NAMES_64
#undef WAYBILL_NAMES_80
#undef WAYBILL_NAMES_96
#undef WAYBILL_NAMES_112
#undef WAYBILL_NAMES_128
#undef WAYBILL_NAMES_144
#undef WAYBILL_NAMES_160
#undef WAYBILL_NAMES_176
#undef WAYBILL_NAMES_192
#undef WAYBILL_NAMES_208
#undef WAYBILL_NAMES_224
#undef WAYBILL_NAMES_240
#undef WAYBILL_NAMES_256

}  // namespace waybill::device
