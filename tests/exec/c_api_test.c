/* Two ranks on two threads through the C interface, against a direct evaluation; and what is
 * refused. */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "waybill/waybill.h"

enum { RANKS = 2, EXPERTS = 5, HIDDEN = 12, FF = 7, TOPK = 2, TOKENS = 6, BAD_TENSORS = 4 };

static int failures = 0;

static void expect(int holds, const char* what, int line) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "line %d: %s (last error: %s)\n", line, what, wb_last_error_message());
}
#define EXPECT(condition) expect((condition) != 0, #condition, __LINE__)

/* gate and up interleaved row by row, down transposed: both are used where they lie. */
static float gate_up[EXPERTS][2 * FF][HIDDEN];
static float down[EXPERTS][FF][HIDDEN];
static float gate_bias[EXPERTS][FF];
static wb_expert_weights weights[EXPERTS];

static float hidden[RANKS][TOKENS][HIDDEN];
static float shared[RANKS][TOKENS][HIDDEN];
static float output[RANKS][TOKENS][HIDDEN];
static int32_t experts[RANKS][TOKENS][TOPK];
static float gates[RANKS][TOKENS][TOPK];

static uint32_t seed = 12345;
static float next_value(void) {
  seed = seed * 1664525U + 1013904223U;
  return (float)(seed >> 8) / (float)(1U << 23) - 1.0F;
}

static void fill(float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = next_value();
}

static void make_inputs(void) {
  fill(&gate_up[0][0][0], sizeof gate_up / sizeof(float));
  fill(&down[0][0][0], sizeof down / sizeof(float));
  fill(&gate_bias[0][0], sizeof gate_bias / sizeof(float));
  fill(&hidden[0][0][0], sizeof hidden / sizeof(float));
  fill(&shared[0][0][0], sizeof shared / sizeof(float));
  fill(&gates[0][0][0], sizeof gates / sizeof(float));
  for (int rank = 0; rank < RANKS; ++rank) {
    for (int token = 0; token < TOKENS; ++token) {
      experts[rank][token][0] = (rank + 2 * token) % EXPERTS;
      experts[rank][token][1] = token == 3 ? -1 : (3 * token + 1) % EXPERTS;
    }
  }
  for (int e = 0; e < EXPERTS; ++e) {
    const wb_expert_weights empty = WB_EXPERT_WEIGHTS_INIT;
    weights[e] = empty;
    weights[e].gate = wb_tensor_2d(&gate_up[e][0][0], WB_F32, FF, HIDDEN);
    weights[e].gate.strides[0] = 2 * HIDDEN;
    weights[e].up = weights[e].gate;
    weights[e].up.data = &gate_up[e][1][0];
    weights[e].down = wb_tensor_2d(&down[e][0][0], WB_F32, HIDDEN, FF);
    weights[e].down.strides[0] = 1;
    weights[e].down.strides[1] = HIDDEN;
    weights[e].gate_bias = wb_tensor_1d(&gate_bias[e][0], WB_F32, FF);
  }
}

static double direct(int rank, int token, int column) {
  double sum = (double)shared[rank][token][column];
  for (int j = 0; j < TOPK; ++j) {
    const int32_t e = experts[rank][token][j];
    if (e < 0) continue;
    double y = 0;
    for (int f = 0; f < FF; ++f) {
      double g = (double)gate_bias[e][f];
      double u = 0;
      for (int i = 0; i < HIDDEN; ++i) {
        g += (double)gate_up[e][2 * f][i] * (double)hidden[rank][token][i];
        u += (double)gate_up[e][2 * f + 1][i] * (double)hidden[rank][token][i];
      }
      y += (double)down[e][f][column] * (g / (1.0 + exp(-g))) * u;
    }
    sum += (double)gates[rank][token][j] * y;
  }
  return sum;
}

static wb_runtime_options two_ranks(void) {
  /* Expert 1 has a slot on each rank; peers stand in reverse order. */
  static const int32_t peer_order[RANKS] = {1, 0};
  static const int32_t slot_counts[RANKS] = {2, 4};
  static const int32_t slot_experts[] = {1, 0, 4, 3, 1, 2};
  wb_runtime_options options = WB_RUNTIME_OPTIONS_INIT;
  options.ranks = RANKS;
  options.peer_order = peer_order;
  options.experts = EXPERTS;
  options.hidden = HIDDEN;
  options.topk = TOPK;
  options.slot_counts = slot_counts;
  options.slot_experts = slot_experts;
  options.selector = WB_SELECT_ROUND_ROBIN;
  options.dedup = 1;
  options.checks = WB_CHECKS_FULL;
  options.timeout_ms = 24 * 3600 * 1000; /* a failed step must not need it */
  return options;
}

static wb_routes routes_of(int rank) {
  wb_routes routes = WB_ROUTES_INIT;
  routes.tokens = TOKENS;
  routes.topk = TOPK;
  routes.experts = &experts[rank][0][0];
  routes.gates = &gates[rank][0][0];
  return routes;
}

/* What one rank's thread does, and the codes that it met. */
typedef struct rank_thread {
  wb_runtime* runtime;
  wb_runtime* other_runtime;
  int32_t rank;
  wb_code bad_route, plan, dispatch, early_combine, second_dispatch, foreign, combine,
      second_combine;
  wb_code second_plan[2]; /* before and after the dispatch */
  wb_code other_rows[BAD_TENSORS], other_output[BAD_TENSORS];
  char message[256];
} rank_thread;

/* Tensors that no step of this test takes as rows, and why. */
static void bad_tensors(float* data, wb_tensor tensors[BAD_TENSORS]) {
  tensors[0] = wb_tensor_2d(data, WB_F32, TOKENS - 1, HIDDEN);
  tensors[1] = wb_tensor_2d(data, WB_F16, TOKENS, HIDDEN);
  tensors[2] = wb_tensor_2d(NULL, WB_F32, TOKENS, HIDDEN);
  tensors[3] = wb_tensor_2d(data, WB_F32, TOKENS, HIDDEN);
  tensors[3].rank = 9;
}
static const wb_code bad_tensor_codes[BAD_TENSORS] = {WB_ShapeMismatch, WB_DtypeMismatch,
                                                      WB_InvalidValue, WB_InvalidValue};

/* One step, with a refused call before each good one: the handle stays what it was. */
static void* run_step(void* argument) {
  rank_thread* self = argument;
  const wb_routes routes = routes_of(self->rank);
  const wb_tensor in = wb_tensor_2d(hidden[self->rank], WB_F32, TOKENS, HIDDEN);
  const wb_tensor out = wb_tensor_2d(output[self->rank], WB_F32, TOKENS, HIDDEN);
  const wb_tensor last = wb_tensor_2d(shared[self->rank], WB_F32, TOKENS, HIDDEN);
  wb_tensor bad_in[BAD_TENSORS], bad_out[BAD_TENSORS];
  bad_tensors(&hidden[self->rank][0][0], bad_in);
  bad_tensors(&output[self->rank][0][0], bad_out);
  wb_handle handle = {0, 0}, ignored = {0, 0};
  self->plan = wb_plan(self->runtime, self->rank, &routes, &handle);
  self->second_plan[0] = wb_plan(self->runtime, self->rank, &routes, &ignored);
  for (int i = 0; i < BAD_TENSORS; ++i) {
    self->other_rows[i] = wb_dispatch(self->runtime, self->rank, handle, &bad_in[i]);
  }
  self->early_combine = wb_combine(self->runtime, self->rank, handle, &out, &last);
  self->foreign = wb_dispatch(self->other_runtime, self->rank, handle, &in);
  self->dispatch = wb_dispatch(self->runtime, self->rank, handle, &in);
  self->second_dispatch = wb_dispatch(self->runtime, self->rank, handle, &in);
  self->second_plan[1] = wb_plan(self->runtime, self->rank, &routes, &handle);
  for (int i = 0; i < BAD_TENSORS; ++i) {
    self->other_output[i] = wb_combine(self->runtime, self->rank, handle, &bad_out[i], &last);
  }
  self->combine = wb_combine(self->runtime, self->rank, handle, &out, &last);
  self->second_combine = wb_combine(self->runtime, self->rank, handle, &out, &last);
  return NULL;
}

static void* run_bad_step(void* argument) {
  rank_thread* self = argument;
  int32_t ids[TOKENS][TOPK];
  memcpy(ids, experts[self->rank], sizeof ids);
  if (self->rank == 1) ids[4][1] = EXPERTS;
  wb_routes routes = routes_of(self->rank);
  routes.experts = &ids[0][0];
  wb_handle handle = {0, 0};
  self->bad_route = wb_plan(self->runtime, self->rank, &routes, &handle);
  snprintf(self->message, sizeof self->message, "%s", wb_last_error_message());
  self->plan = wb_plan(self->runtime, self->rank, &routes, &handle);
  return NULL;
}

static void on_both_ranks(rank_thread ranks[RANKS], void* (*body)(void*)) {
  pthread_t threads[RANKS];
  for (int rank = 0; rank < RANKS; ++rank) {
    ranks[rank].rank = rank;
    if (pthread_create(&threads[rank], NULL, body, &ranks[rank]) != 0) abort();
  }
  for (int rank = 0; rank < RANKS; ++rank) pthread_join(threads[rank], NULL);
}

static void step_equals_direct_evaluation(void) {
  const wb_runtime_options options = two_ranks();
  wb_runtime* runtime = NULL;
  wb_runtime* other = NULL;
  EXPECT(wb_runtime_open(&options, weights, &runtime) == WB_OK);
  EXPECT(wb_runtime_open(&options, weights, &other) == WB_OK);
  for (int step = 0; step < 3; ++step) {
    rank_thread ranks[RANKS] = {{.runtime = runtime, .other_runtime = other},
                                {.runtime = runtime, .other_runtime = other}};
    memset(output, 0, sizeof output);
    on_both_ranks(ranks, run_step);
    for (int rank = 0; rank < RANKS; ++rank) {
      EXPECT(ranks[rank].plan == WB_OK);
      for (int i = 0; i < 2; ++i) EXPECT(ranks[rank].second_plan[i] == WB_PairedStateOverwritten);
      for (int i = 0; i < BAD_TENSORS; ++i) {
        EXPECT(ranks[rank].other_rows[i] == bad_tensor_codes[i]);
        EXPECT(ranks[rank].other_output[i] == bad_tensor_codes[i]);
      }
      EXPECT(ranks[rank].early_combine == WB_HandleTypeMismatch);
      EXPECT(ranks[rank].foreign == WB_HandleUnknown);
      EXPECT(ranks[rank].dispatch == WB_OK);
      EXPECT(ranks[rank].second_dispatch == WB_HandleTypeMismatch);
      EXPECT(ranks[rank].combine == WB_OK);
      EXPECT(ranks[rank].second_combine == WB_HandleReleased);
      for (int token = 0; token < TOKENS; ++token) {
        for (int i = 0; i < HIDDEN; ++i) {
          EXPECT(fabs((double)output[rank][token][i] - direct(rank, token, i)) < 1e-4);
        }
      }
    }
  }
  wb_runtime_close(other);
  wb_runtime_close(runtime);
}

static void bad_route_fails_on_every_rank(void) {
  const wb_runtime_options options = two_ranks();
  wb_runtime* runtime = NULL;
  EXPECT(wb_runtime_open(&options, weights, &runtime) == WB_OK);
  rank_thread ranks[RANKS] = {{.runtime = runtime}, {.runtime = runtime}};
  on_both_ranks(ranks, run_bad_step);
  for (int rank = 0; rank < RANKS; ++rank) {
    EXPECT(ranks[rank].bad_route == WB_ExpertIdOutOfRange);
    EXPECT(strstr(ranks[rank].message, "rank 1") != NULL);
    EXPECT(strstr(ranks[rank].message, "token 4") != NULL);
    EXPECT(ranks[rank].plan == WB_PeerAborted);
  }
  wb_runtime_close(runtime);
}

static wb_runtime_options one_rank(void) {
  wb_runtime_options options = WB_RUNTIME_OPTIONS_INIT;
  options.experts = EXPERTS;
  options.hidden = HIDDEN;
  options.topk = TOPK;
  return options;
}

/* What runs out is wider than any process lives long. */
static void handles_of_closed_runtimes_stay_unknown(void) {
  const wb_runtime_options options = one_rank();
  const wb_routes routes = routes_of(0);
  wb_handle old = {0, 0};
  wb_runtime* runtime = NULL;
  EXPECT(wb_runtime_open(&options, weights, &runtime) == WB_OK);
  EXPECT(wb_plan(runtime, 0, &routes, &old) == WB_OK);
  wb_runtime_close(runtime);
  EXPECT(sizeof old.index == 8 && sizeof old.generation == 8);
  int known = 0;
  for (int i = 0; i < 1000; ++i) {
    EXPECT(wb_runtime_open(&options, weights, &runtime) == WB_OK);
    known += wb_release(runtime, 0, old) != WB_HandleUnknown;
    wb_runtime_close(runtime);
  }
  EXPECT(known == 0);
}

/* A handle that was released isn't the next one, and a step can be given up at either stage. */
static void released_handles_stay_released(void) {
  const wb_runtime_options options = one_rank();
  const wb_routes routes = routes_of(0);
  const wb_tensor in = wb_tensor_2d(hidden[0], WB_F32, TOKENS, HIDDEN);
  const wb_tensor out = wb_tensor_2d(output[0], WB_F32, TOKENS, HIDDEN);
  wb_runtime* runtime = NULL;
  EXPECT(wb_runtime_open(&options, weights, &runtime) == WB_OK);
  wb_handle first = {0, 0}, second = {0, 0};
  EXPECT(wb_plan(runtime, 0, &routes, &first) == WB_OK);
  EXPECT(wb_release(runtime, 0, first) == WB_OK);
  EXPECT(wb_release(runtime, 0, first) == WB_HandleReleased);
  EXPECT(wb_plan(runtime, 0, &routes, &second) == WB_OK);
  EXPECT(wb_dispatch(runtime, 0, first, &in) == WB_HandleReleased);
  EXPECT(wb_dispatch(runtime, 0, second, &in) == WB_OK);
  EXPECT(wb_combine(runtime, 0, first, &out, NULL) == WB_HandleReleased);
  EXPECT(wb_combine(runtime, 0, second, &out, NULL) == WB_OK);
  wb_runtime_close(runtime);
}

static void structs_and_arguments_are_checked(void) {
  wb_runtime* runtime = NULL;
  wb_runtime_options options;
  memset(&options, 0, sizeof options);
  EXPECT(wb_runtime_open(&options, weights, &runtime) == WB_StructMismatch);
  options = two_ranks();
  options.size -= 1;
  EXPECT(wb_runtime_open(&options, weights, &runtime) == WB_StructMismatch);
  EXPECT(runtime == NULL);

  options = two_ranks();
  EXPECT(wb_runtime_open(NULL, weights, &runtime) == WB_InvalidValue);
  EXPECT(wb_runtime_open(&options, NULL, &runtime) == WB_InvalidValue);
  EXPECT(wb_runtime_open(&options, weights, NULL) == WB_InvalidValue);
  options.selector = 99;
  EXPECT(wb_runtime_open(&options, weights, &runtime) == WB_InvalidValue);
  EXPECT(strstr(wb_last_error_message(), "selector") != NULL);
  options = two_ranks();
  options.bad_ids = 2;
  EXPECT(wb_runtime_open(&options, weights, &runtime) == WB_InvalidValue);
  EXPECT(strstr(wb_last_error_message(), "bad_ids") != NULL);
  options = two_ranks();
  options.topk = EXPERTS + 1;
  EXPECT(wb_runtime_open(&options, weights, &runtime) == WB_TopKExceedsExperts);
  options = two_ranks();
  const int32_t twice[RANKS] = {1, 1};
  options.peer_order = twice;
  EXPECT(wb_runtime_open(&options, weights, &runtime) == WB_PeerOrderInvalid);
  options = two_ranks();
  weights[2].magic ^= 1;
  EXPECT(wb_runtime_open(&options, weights, &runtime) == WB_StructMismatch);
  weights[2].magic ^= 1;

  EXPECT(wb_runtime_open(&options, weights, &runtime) == WB_OK);
  const wb_routes routes = routes_of(0);
  wb_handle handle = {0, 0};
  EXPECT(wb_plan(NULL, 0, &routes, &handle) == WB_InvalidValue);
  EXPECT(wb_plan(runtime, RANKS, &routes, &handle) == WB_RankOutsideGroup);
  EXPECT(wb_plan(runtime, 0, NULL, &handle) == WB_InvalidValue);
  EXPECT(wb_release(runtime, 0, handle) == WB_HandleUnknown);
  wb_runtime_close(runtime);
  wb_runtime_close(NULL);
}

/* Programs hold the numbers that they were compiled with. */
static void codes_keep_their_numbers(void) {
  EXPECT(WB_SemanticDigestMismatch == 1);
  EXPECT(WB_StructMismatch == 197);
  EXPECT(WB_MemoryExhausted == 198);
}

static void codes_have_names(void) {
  EXPECT(strcmp(wb_code_name(WB_OK), "OK") == 0);
  EXPECT(strcmp(wb_code_name(WB_RecvSplitMismatch), "RecvSplitMismatch") == 0);
  EXPECT(strcmp(wb_code_name(WB_StructMismatch), "StructMismatch") == 0);
  for (int32_t number = -2; number <= 100000; ++number) {
    const char* name = wb_code_name(number);
    EXPECT(name == NULL || number >= 0);
  }
}

int main(void) {
  make_inputs();
  codes_have_names();
  codes_keep_their_numbers();
  step_equals_direct_evaluation();
  bad_route_fails_on_every_rank();
  released_handles_stay_released();
  handles_of_closed_runtimes_stay_unknown();
  structs_and_arguments_are_checked();
  if (failures == 0) printf("all expectations hold\n");
  return failures == 0 ? 0 : 1;
}
