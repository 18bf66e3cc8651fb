/** \file
 * tfaot/c_api.h: the C ABI of a compiled model, version 1.
 *
 * A model library exports one function,
 *
 *     const tfaot_model_table* tfaot_model_NAME_UID(void);
 *
 * where UID (12 hexadecimal digits) is a digest of the model's content, so that two models, and two versions of
 * one model, can live in one process. The generated header <tfaot-model-NAME/model.h> declares it. A shared library
 * exports the same function once more under the name TFAOT_ENTRY_POINT, for programs that open it with dlopen.
 *
 * The function returns a table, which is valid as long as the library is loaded. A program needs nothing else:
 *
 *     const tfaot_model_table* model = tfaot_model_digits_0123456789ab();
 *     const tfaot_code* code;                       // constant, for all threads; it need not be freed
 *     char message[TFAOT_MESSAGE_SIZE];
 *     if (model->select(NULL, &code, message, sizeof message) != TFAOT_OK) { ... print message ... }
 *     const void* inputs[] = {image};               // in the order of model->info->inputs
 *     void* outputs[] = {digit, probability};       // in the order of model->info->outputs
 *     if (model->compute(code, 4, inputs, outputs, NULL, 0, message, sizeof message) != TFAOT_OK) { ... print message ... }
 *
 * The library keeps scratch memory for each thread, or the caller gives it:
 *
 *     const size_t size = model->scratch_bytes(code, 4);
 *     void* scratch = aligned_alloc(TFAOT_SCRATCH_ALIGNMENT, size);   // for one call at a time
 *     model->compute(code, 4, inputs, outputs, scratch, size, message, sizeof message);
 *
 * An instance holds scratch memory of its own, and serves one thread at a time:
 *
 *     tfaot_instance* instance;
 *     if (model->create(NULL, &instance, message, sizeof message) != TFAOT_OK) { ... print message ... }
 *     if (model->run(instance, 4, inputs, outputs) != TFAOT_OK) { ... print model->message(instance) ... }
 *     model->destroy(instance);
 *
 * Order: inputs and outputs are each sorted by name (byte order, as strcmp does), unless the model's spec lists them.
 * Memory: tensors are dense, row-major, batch axis first. Buffers that are aligned to `alignment` bytes (see
 *     tfaot_info) are read and written in place; others are copied (if `any_batch_size` is 1, only those whose elements are
 *     misaligned). Inputs and outputs must not overlap.
 * Threads: the table, the code and the model's weights are constant and shared: any number of threads may call `compute`
 *     at a time. Use one instance per thread: a run while another one is in progress fails with TFAOT_BUSY.
 * Teams: one call computes on one thread, unless it gets a team of threads of the caller's (tfaot_team): then they share the
 *     work, and the answers have the same bits. The library starts no threads. Programs without a scheduler of their own
 *     can start some and let them wait in a tfaot_thread_pool.
 * Batch sizes: if `any_batch_size` of tfaot_info is 1, calls take every number of rows from 1 on. If it is 0, they take
 *     `batch_sizes` only.
 * State: a model with variables is a function: it takes their values as inputs and returns the next values as outputs.
 *     `states` of tfaot_info lists them, with their trained values. Callers keep the buffers, and exchange them after
 *     each step: outputs must not overlap inputs.
 * Rows: a model whose rows depend on one another (`rows_independent` of tfaot_info is 0) gives correct answers only for
 *     whole batches of a compiled size. Batches of other sizes must be neither composed of these nor padded.
 * Versions: a program that was compiled for some version of the ABI can use libraries of that version and of later ones:
 *     fields are only ever added at the end of a struct, and `struct_size` tells which are there
 *     (`TFAOT_HAS(model, compute)`).
 */
#ifndef TFAOT_C_API_H_
#define TFAOT_C_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The version that this file describes. */
#define TFAOT_ABI_VERSION 1

/** The second name under which a shared library exports its entry function: the same for every model. */
#define TFAOT_ENTRY_POINT "tfaot_model_entry"

/** Bytes that hold every message of `create`, including its terminating zero. */
#define TFAOT_MESSAGE_SIZE 256

/** The alignment of scratch memory for `compute`, in bytes. */
#define TFAOT_SCRATCH_ALIGNMENT 64

/** Whether a library's table has a function that was added after version 1 of the ABI: `TFAOT_HAS(model, compute)`. */
#define TFAOT_HAS(table, function) \
  ((table)->struct_size >= offsetof(tfaot_model_table, function) + sizeof((table)->function))

/** Results of calls. */
typedef int32_t tfaot_status;

/** Values of tfaot_status. */
enum {
  TFAOT_OK = 0,                 /**< done */
  TFAOT_UNSUPPORTED_CPU = 1,    /**< this CPU lacks what the lowest target of the library needs */
  TFAOT_OUT_OF_MEMORY = 2,      /**< scratch memory could not be allocated */
  TFAOT_INVALID_ARGUMENT = 3,   /**< a null pointer, an unknown target */
  TFAOT_NO_SUCH_BATCH_SIZE = 4, /**< not one of info->batch_sizes; if any size runs: less than 1, or too much for memory */
  TFAOT_COMPUTATION_FAILED = 5, /**< the compiled computation reported an error */
  TFAOT_BUSY = 6,               /**< another thread is running this instance; its message is left alone */
  TFAOT_INVALID_SCRATCH = 7     /**< scratch memory is too small or not aligned */
};

/** Instructions that a process may use only after its operating system has permitted it: bits of `permit`. */
enum {
  TFAOT_TILES = 1 /**< AMX. Linux: syscall(SYS_arch_prctl, 0x1023, 18) == 0, which is ARCH_REQ_XCOMP_PERM of tile data */
};

/** Element types. */
enum {
  TFAOT_BOOL = 1,     /**< one byte, 0 or 1 */
  TFAOT_INT8 = 2,     /**< int8_t */
  TFAOT_INT16 = 3,    /**< int16_t */
  TFAOT_INT32 = 4,    /**< int32_t */
  TFAOT_INT64 = 5,    /**< int64_t */
  TFAOT_UINT8 = 6,    /**< uint8_t */
  TFAOT_UINT16 = 7,   /**< uint16_t */
  TFAOT_UINT32 = 8,   /**< uint32_t */
  TFAOT_UINT64 = 9,   /**< uint64_t */
  TFAOT_FLOAT32 = 10, /**< float */
  TFAOT_FLOAT64 = 11, /**< double */
  TFAOT_FLOAT16 = 12,    /**< uint16_t: the bits of IEEE 754's binary16 */
  TFAOT_BFLOAT16 = 13,   /**< uint16_t: the upper half of the bits of a float */
  TFAOT_COMPLEX64 = 14,  /**< float[2], real and imaginary part: float _Complex, std::complex<float> */
  TFAOT_COMPLEX128 = 15  /**< double[2], real and imaginary part: double _Complex, std::complex<double> */
};

/** An input or output. */
typedef struct tfaot_tensor {
  const char* name;       /**< as in the model's signature */
  int32_t dtype;          /**< #TFAOT_FLOAT32, ... */
  int32_t rank;           /**< number of axes */
  const int64_t* shape;   /**< `rank` sizes; -1 is the batch axis, which can only be the first */
  int64_t row_elements;   /**< product of all sizes except that of the batch axis */
  int32_t element_size;   /**< bytes */
  int32_t has_batch_axis; /**< 0: the tensor has the same shape at every batch size */
} tfaot_tensor;

/** A size that each call specifies, such as the number of particles of an event. */
typedef struct tfaot_symbol {
  const char* name; /**< as in the model's spec */
  size_t minimum;   /**< the smallest size; at least 1 */
  size_t maximum;   /**< the largest size; `shape` of a tensor contains it in place of the symbol */
} tfaot_symbol;

/** A product in the size of an output's axis that is computed from symbols: `n - 4` has two terms. */
typedef struct tfaot_term {
  int32_t axis;           /**< of the output; -1 ends a list of terms */
  int32_t num_symbols;    /**< number of `symbols` */
  const int32_t* symbols; /**< their numbers in `symbols` of tfaot_info; n * n names n twice */
  int64_t factor;         /**< of the product of their sizes; the term itself if there are none */
} tfaot_term;

/** A variable of the model, whose value callers keep: a step takes it as an input and returns the next one as an output. */
typedef struct tfaot_state {
  const char* name;     /**< as in the model */
  size_t input;         /**< the input that takes its value */
  int64_t output;       /**< the output that has its next value; -1 if steps do not change it */
  const void* initial;  /**< its trained value: dense, row-major */
} tfaot_state;

/** Threads of the caller's that compute one call together; the calling thread is one of them. */
typedef struct tfaot_team {
  void* context; /**< what `run` gets: the library does not look at it */
  size_t size;   /**< how many threads compute at a time at most, at least 1: it decides how work is divided */

  /** Call `task(argument)` up to `count` times, at most `size`, and return when these calls have ended. They may run at the
   * same time on any threads, or one after the other in any order. Each call takes parts of the work until none is left, so
   * fewer calls, or none, are right as well: what is left when `run` returns is computed by the thread that called the model.
   * No call may begin after that. `task` throws nothing and waits for nothing; neither may `run` throw. A call of a model
   * calls `run` once for each part of the model that is divided, always on the thread that called the model. */
  void (*run)(void* context, size_t count, void (*task)(void* argument), void* argument);
} tfaot_team;

/** Threads of the caller's that wait for work, and need nothing else that runs tasks. Zeros at first; it stays where it is while
 * threads serve it, and has nothing to free. */
typedef struct tfaot_thread_pool {
  uint64_t reserved[32]; /**< of the library */
} tfaot_thread_pool;

struct tfaot_model_table;

/** One of several signatures of a model. */
typedef struct tfaot_signature {
  const char* name;                      /**< of the signature */
  const struct tfaot_model_table* table; /**< of this signature alone: calls take only its own tensors */
  size_t num_inputs;                     /**< number of `inputs` */
  const size_t* inputs;                  /**< their positions in `inputs` of tfaot_info */
  size_t num_outputs;                    /**< number of `outputs` */
  const size_t* outputs;                 /**< their positions in `outputs` of tfaot_info */
} tfaot_signature;

/** What a library holds. All strings are UTF-8 and end with zero. */
typedef struct tfaot_info {
  uint32_t struct_size;       /**< sizeof(tfaot_info) of the library */
  uint32_t alignment;         /**< bytes; buffers with this alignment are used in place */
  const char* name;           /**< of the model */
  const char* version;        /**< of the model */
  const char* uid;            /**< digest of the model's content, 12 hexadecimal digits */
  const char* toolchain;      /**< of its code: "tensorflow 2.17.1", or this tool for a program */
  size_t num_inputs;          /**< number of `inputs` */
  const tfaot_tensor* inputs; /**< in the order that `run` takes them */
  size_t num_outputs;         /**< number of `outputs` */
  const tfaot_tensor* outputs; /**< in the order that `run` takes them */
  size_t num_batch_sizes;     /**< number of `batch_sizes` */
  const int64_t* batch_sizes; /**< those that were compiled, or validated and measured if any size runs; ascending */
  size_t num_targets;         /**< number of `targets` */
  const char* const* targets; /**< lowest first, such as "x86-64-v2" */

  /** The cost of one run: `num_targets` rows of `num_batch_sizes` values in nanoseconds, measured if the model was tuned,
   * otherwise estimated. Only their ratios matter: they decide how a batch of another size is composed. */
  const double* batch_costs;

  /** 1: each row of the outputs depends only on the same row of the inputs, so that a batch of any size may be composed
   * of compiled ones. 0: it must not be; only whole batches of a compiled size give correct answers. Libraries that end
   * before this field do not say. */
  int32_t rows_independent;

  /** 1: `run` takes every number of rows from 1 on, and a row has the same bits at each. 0: only `batch_sizes`. Older
   * libraries have 0 here, or end before `rows_independent`. */
  int32_t any_batch_size;

  /** Number of `symbols`, 0 for most models. Older libraries end before this field. */
  size_t num_symbols;

  /** Sizes that `compute_sized` and `run_sized` take, in this order. `run` and `compute` take arrays of the maxima. */
  const tfaot_symbol* symbols;

  /** For each input, in their order, the number of the symbol of each of its axes, -1 for an axis without one; null for an
   * input without symbols. Null if there are no symbols. */
  const int32_t* const* input_axes;

  /** The same for outputs. An axis with a computed size (`output_terms`) has -1, and `shape` its largest size. */
  const int32_t* const* output_axes;

  /** Number of `states`, 0 for most models. Older libraries end before this field. */
  size_t num_states;

  /** The variables that callers keep, sorted by name. */
  const tfaot_state* states;

  /** Number of `signatures`; 0 for most models, which have a single one. Older libraries end before this field. */
  size_t num_signatures;

  /** The signatures, sorted by name. `inputs` and `outputs` above are those of all of them, such as "encode/x". A call skips
   * a signature if all pointers to its inputs and outputs are null. Tables of single signatures have none here. */
  const tfaot_signature* signatures;

  /** For each output, in their order, the terms of its axes with computed sizes: the size of an axis is the sum of its
   * terms. Null for an output without such axes; null if there are none. Older libraries end before this field. */
  const tfaot_term* const* output_terms;
} tfaot_info;

/** Scratch memory of one thread of computation. */
typedef struct tfaot_instance tfaot_instance;

/** The code of one target with the model's weights: constant, for all threads, as long as the library is loaded. */
typedef struct tfaot_code tfaot_code;

/** What a library offers. */
typedef struct tfaot_model_table {
  uint32_t abi_version; /**< TFAOT_ABI_VERSION of the library */
  uint32_t struct_size; /**< sizeof(tfaot_model_table) of the library */
  const tfaot_info* info; /**< what it holds */

  /** Make an instance that runs the code of `target`, or of the best target for this CPU if `target` is NULL.
   * On failure `*instance` is NULL and `message` (may be NULL) holds the reason, cut to `message_size` bytes. */
  tfaot_status (*create)(const char* target, tfaot_instance** instance, char* message, size_t message_size);

  /** Free an instance; NULL is allowed. */
  void (*destroy)(tfaot_instance* instance);

  /** Compute one batch of a compiled size, or of any size if `any_batch_size` is 1. `inputs` and `outputs` hold one
   * pointer per tensor. Scratch memory of a batch size (or of all sizes) is allocated at its first run; later ones
   * allocate nothing, except temporary memory for large convolutions and matrix products in XLA's code. */
  tfaot_status (*run)(tfaot_instance* instance, int64_t batch_size, const void* const* inputs, void* const* outputs);

  /** The reason for the last failure of `run` on this instance, except TFAOT_BUSY; "" if there was none. */
  const char* (*message)(const tfaot_instance* instance);

  /** The target whose code this instance runs. */
  const char* (*target)(const tfaot_instance* instance);

  /** Bytes that this instance holds now. */
  size_t (*memory)(const tfaot_instance* instance);

  /** Find the code of `target`, or of the best target for this CPU if `target` is NULL. It need not be freed. On failure
   * `*code` is NULL and `message` (may be NULL) holds the reason, cut to `message_size` bytes. Older libraries end before
   * this field: check `TFAOT_HAS(model, compute)`. */
  tfaot_status (*select)(const char* target, const tfaot_code** code, char* message, size_t message_size);

  /** The target of this code. */
  const char* (*code_target)(const tfaot_code* code);

  /** Bytes of scratch memory that `compute` needs for this batch size, wherever inputs and outputs lie: a multiple of
   * #TFAOT_SCRATCH_ALIGNMENT; 0 if there is no such batch size. */
  size_t (*scratch_bytes)(const tfaot_code* code, int64_t batch_size);

  /** Compute what `run` computes, without an instance: any number of threads may call it at a time. `scratch` points to at
   * least `scratch_bytes` bytes, aligned to #TFAOT_SCRATCH_ALIGNMENT, which no other call uses at the same time and which
   * do not overlap inputs or outputs; their content need not be kept between calls. The call then allocates nothing, except
   * temporary memory for large convolutions and matrix products in XLA's code. If `scratch` is NULL, the library keeps
   * memory for each thread, which it allocates at the thread's first call and at its first call of a larger size. (There is
   * room for 512 threads; if there are more, some wait.) On failure `message` (may be NULL) holds the reason. */
  tfaot_status (*compute)(const tfaot_code* code, int64_t batch_size, const void* const* inputs, void* const* outputs,
                          void* scratch, size_t scratch_size, char* message, size_t message_size);

  /** Bytes that the library currently keeps for threads that called `compute` without scratch memory. */
  size_t (*kept_bytes)(void);

  /** Free this memory, except that of calls in progress. Necessary before a library that kept some is unloaded. */
  void (*release)(void);

  /** `compute` with arrays of the given `sizes`: one for each of `symbols` of tfaot_info, in their order; null for their
   * maxima. All tensors are dense at these sizes. `scratch_bytes` is enough for all sizes. Older libraries, which end before
   * this field, have no symbols: check `TFAOT_HAS(model, compute_sized)`. */
  tfaot_status (*compute_sized)(const tfaot_code* code, int64_t batch_size, const size_t* sizes,
                                const void* const* inputs, void* const* outputs, void* scratch, size_t scratch_size,
                                char* message, size_t message_size);

  /** `run` with arrays of the given `sizes`. */
  tfaot_status (*run_sized)(tfaot_instance* instance, int64_t batch_size, const size_t* sizes,
                            const void* const* inputs, void* const* outputs);

  /** Bytes of a saved state; 0 if the model has none. Older libraries, which end before this field, have no state: check
   * `TFAOT_HAS(model, restore_state)`. */
  size_t (*state_bytes)(void);

  /** Write the state, one pointer for each of `states` of tfaot_info, to `bytes`, which has room for `state_bytes()`: the
   * same bytes on every machine. On failure `message` (may be NULL) holds the reason. */
  tfaot_status (*save_state)(const void* const* state, void* bytes, size_t size, char* message, size_t message_size);

  /** Read a saved state, of this model or of another version of it with the same variables, into buffers. Bytes of another
   * model or size, or changed bytes, fail with TFAOT_INVALID_ARGUMENT, and the buffers stay as they were. */
  tfaot_status (*restore_state)(const void* bytes, size_t size, void* const* state, char* message, size_t message_size);

  /** As `scratch_bytes`, for `compute_with_team` and a team of this size. Older libraries, which end before this field,
   * compute on the calling thread alone: check `TFAOT_HAS(model, compute_with_team)`. */
  size_t (*team_scratch_bytes)(const tfaot_code* code, int64_t batch_size, size_t team_size);

  /** As `compute_sized` (`sizes` may be null), together with the threads of `team`; `scratch` has at least
   * `team_scratch_bytes` bytes. Answers have the same bits with teams of any size, and without one: null. Many rows are
   * divided among the threads, and large layers of few rows. What is too small to be worth it, and XLA's code, runs on the
   * calling thread. A team may serve several calls at a time if its `run` can. */
  tfaot_status (*compute_with_team)(const tfaot_code* code, int64_t batch_size, const size_t* sizes,
                                    const void* const* inputs, void* const* outputs, const tfaot_team* team, void* scratch,
                                    size_t scratch_size, char* message, size_t message_size);

  /** The calling thread takes part in calls whose team has `run_on_thread_pool` with this pool, and returns after
   * `stop_thread_pool`. Between tasks it spins some 100 microseconds before it sleeps. Older libraries end before this field. */
  void (*serve_thread_pool)(tfaot_thread_pool* pool);

  /** All threads return from `serve_thread_pool`, once they have ended their tasks, those that call it later at once. */
  void (*stop_thread_pool)(tfaot_thread_pool* pool);

  /** `run` of a team whose `context` is a tfaot_thread_pool. The thread that calls the model takes part: N threads are N - 1 that
   * serve the pool, and the team's size is N. A pool serves one call at a time, others compute on their own threads. */
  void (*run_on_thread_pool)(void* pool, size_t count, void (*task)(void* argument), void* argument);

  /** Say which instructions the operating system permits this process to use (#TFAOT_TILES): from now on the code uses
   * these and no others, on all threads, if they are faster. Answers have the same bits. Returns those that the code has use
   * for and this CPU has, so that `permit(code, 0)` tells whether it is worth asking the operating system. The library makes
   * no system calls; the C++ headers ask (tfaot/permissions.h). Any thread may call this at any time. Older libraries end
   * before this field: check `TFAOT_HAS(model, permit)`. */
  uint32_t (*permit)(const tfaot_code* code, uint32_t features);
} tfaot_model_table;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TFAOT_C_API_H_ */
