/* Waybill in C: one MoE layer over the ranks of this process, a thread a rank.
 *
 *   wb_runtime* runtime;
 *   wb_runtime_open(&options, weights, &runtime);
 *   // on each rank's own thread:
 *   wb_plan(runtime, rank, &routes, &handle);
 *   wb_dispatch(runtime, rank, handle, &hidden);
 *   wb_combine(runtime, rank, handle, &output, NULL);
 *   // after all threads have ended:
 *   wb_runtime_close(runtime);
 *
 * Every function returns a wb_code: WB_OK, or why nothing was done. Names and numbers of codes are
 * stable: later versions only add some. Nothing here throws or ends the process; MemoryExhausted
 * when the machine has no more.
 *
 * Structs that a caller fills begin with their size and a magic value: start from the matching
 * WB_…_INIT. A struct of another size or magic is StructMismatch, so one that was never initialised
 * is refused. */
#ifndef WAYBILL_WAYBILL_H_
#define WAYBILL_WAYBILL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum wb_code {
  WB_OK = 0,
#define WAYBILL_CODE(number, name, category, contract) WB_##name = (number),
#include "waybill/error_codes.def"
#undef WAYBILL_CODE
} wb_code;

/* "RecvSplitMismatch"; "OK" for WB_OK, NULL for a number that is no code. Static storage. */
const char* wb_code_name(int32_t code);
/* What the last call on this thread that failed had to say: the code, where, what was expected and
 * what was found. Valid until this thread's next failing call; "" before any. */
const char* wb_last_error_message(void);

typedef enum wb_dtype { WB_F32, WB_BF16, WB_F16 } wb_dtype;
typedef enum wb_activation {
  WB_SWIGLU,         /* silu(gate) * up */
  WB_SWIGLU_CLAMPED, /* gate <= limit, |up| <= limit; (up + 1) * gate * sigmoid(alpha * gate) */
} wb_activation;
typedef enum wb_selector {
  WB_SELECT_FIRST,
  WB_SELECT_ROUND_ROBIN,
  WB_SELECT_LEAST_LOAD,
  WB_SELECT_LOCALITY,
  WB_SELECT_HASH,
} wb_selector;
typedef enum wb_checks { WB_CHECKS_OFF, WB_CHECKS_COUNTS, WB_CHECKS_FULL } wb_checks;
/* What an expert id outside [0, experts) other than -1 is. */
typedef enum wb_bad_ids { WB_BAD_IDS_ERROR, WB_BAD_IDS_DROP } wb_bad_ids;

/* A tensor in host memory that the caller owns. Strides count elements. data NULL: absent. */
typedef struct wb_tensor {
  void* data;
  int32_t dtype; /* wb_dtype */
  int32_t rank;  /* at most 4 */
  int64_t shape[4];
  int64_t strides[4];
} wb_tensor;
/* Row-major, without gaps. */
wb_tensor wb_tensor_1d(const void* data, int32_t dtype, int64_t extent);
wb_tensor wb_tensor_2d(const void* data, int32_t dtype, int64_t rows, int64_t columns);

/* y = down . act(gate . x + gate_bias, up . x + up_bias) + down_bias. f32, bf16 or f16, any
 * strides; used in place: the memory must live and stay as it is until wb_runtime_close(). Biases
 * are optional. */
typedef struct wb_expert_weights {
  size_t size;
  uint32_t magic;
  wb_tensor gate, up;           /* [ff, hidden] */
  wb_tensor down;               /* [hidden, ff] */
  wb_tensor gate_bias, up_bias; /* [ff] */
  wb_tensor down_bias;          /* [hidden] */
} wb_expert_weights;
#define WB_EXPERT_WEIGHTS_MAGIC 0x57424557U
#define WB_EXPERT_WEIGHTS_INIT \
  { .size = sizeof(wb_expert_weights), .magic = WB_EXPERT_WEIGHTS_MAGIC }

typedef struct wb_runtime_options {
  size_t size;
  uint32_t magic;
  int32_t ranks;
  int32_t nodes;             /* equal runs of consecutive ranks */
  const int32_t* peer_order; /* [ranks] any permutation; NULL: rank order */
  int32_t experts, hidden, topk;
  int32_t dtype;      /* of activations, arithmetic and return rows: WB_F32 or WB_BF16 */
  int32_t activation; /* wb_activation */
  float activation_alpha, activation_limit;
  /* Logical experts of each rank's slots in local order, rank after rank: slot_counts [ranks],
   * slot_experts [sum of slot_counts]. An expert may have several slots. Both NULL: experts in
   * contiguous runs, one slot each. */
  const int32_t* slot_counts;
  const int32_t* slot_experts;
  int32_t selector;   /* wb_selector */
  int32_t dedup;      /* not 0: one payload row per (token, destination rank) */
  int32_t checks;     /* wb_checks */
  int32_t bad_ids;    /* wb_bad_ids: an error of every rank, or a dropped route */
  int32_t timeout_ms; /* longest wait for peers in one phase */
} wb_runtime_options;
#define WB_RUNTIME_OPTIONS_MAGIC 0x57424f50U
#define WB_RUNTIME_OPTIONS_INIT                                                                    \
  {                                                                                                \
    .size = sizeof(wb_runtime_options), .magic = WB_RUNTIME_OPTIONS_MAGIC, .ranks = 1, .nodes = 1, \
    .activation_alpha = 1.702F, .activation_limit = 7.0F, .checks = WB_CHECKS_COUNTS,              \
    .timeout_ms = 30000                                                                            \
  }

/* One rank's routes, token-major. The memory must live until the handle is combined or released. */
typedef struct wb_routes {
  size_t size;
  uint32_t magic;
  int32_t tokens, topk;
  const int32_t* experts; /* [tokens, topk]; -1: dropped */
  const float* gates;     /* [tokens, topk] */
} wb_routes;
#define WB_ROUTES_MAGIC 0x57425254U
#define WB_ROUTES_INIT \
  { .size = sizeof(wb_routes), .magic = WB_ROUTES_MAGIC }

/* Names one step of one rank of one runtime: the index is theirs, the generation counts the rank's
 * steps. Neither is used again while the process lives, so a handle that was used up, or another
 * runtime's, is an error. */
typedef struct wb_handle {
  uint64_t index;
  uint64_t generation;
} wb_handle;

typedef struct wb_runtime wb_runtime;

/* `experts` [options->experts] are the weights by logical expert id. Both arrays and the structs in
 * them are copied, the tensors' memory is not. */
wb_code wb_runtime_open(const wb_runtime_options* options, const wb_expert_weights* experts,
                        wb_runtime** runtime);
/* No rank may be inside a call. NULL is allowed. */
void wb_runtime_close(wb_runtime* runtime);

/* The calls of one step. A rank is driven by one thread at a time, with one step under way; all
 * ranks make the same calls in the same order. When a step fails on one rank it fails on all, and
 * the runtime takes no further step (PeerAborted). A call that is refused for its handle, a struct
 * or a tensor, or because another call is due, changes nothing: the handle stays good. */

/* Selects replicas, plans, and agrees with all ranks before any payload moves.
 * PairedStateOverwritten before the rank's last step is combined or released. */
wb_code wb_plan(wb_runtime* runtime, int32_t rank, const wb_routes* routes, wb_handle* handle);
/* Packs and submits. `hidden` [tokens, hidden] in the runtime's dtype, rows without gaps; it may be
 * reused at return. */
wb_code wb_dispatch(wb_runtime* runtime, int32_t rank, wb_handle handle, const wb_tensor* hidden);
/* Runs the experts, takes the rows home and sums them: `output` [tokens, hidden] in the runtime's
 * dtype or f32. `shared` [tokens, hidden] f32 is added last; NULL: none. The handle is used up. */
wb_code wb_combine(wb_runtime* runtime, int32_t rank, wb_handle handle, const wb_tensor* output,
                   const wb_tensor* shared);
/* Gives a handle up before its combine. Unless every rank does so at the same point, the group's
 * step fails. */
wb_code wb_release(wb_runtime* runtime, int32_t rank, wb_handle handle);

#ifdef __cplusplus
}
#endif

#endif /* WAYBILL_WAYBILL_H_ */
