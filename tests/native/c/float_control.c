/* A caller's arithmetic: float_control LIBRARY TARGET INPUTS OUTPUTS SIZE
 *
 * Answers to the first SIZE rows of files in INPUTS must have the same bits however the caller rounds and whatever traps
 * in its code, through both ways to call; and the caller's control words stay as they are, also after an error. */
#include "model_under_test.h"

#include <fenv.h>

enum { MOST = 64 };

struct words {
#if defined(__x86_64__)
  unsigned sse;
  unsigned short x87;
#else
  uint64_t control;
#endif
};

static struct words read_words(void) {
  struct words words;
  memset(&words, 0, sizeof words);
#if defined(__x86_64__)
  __asm__ volatile("stmxcsr %0" : "=m"(words.sse));
  __asm__ volatile("fnstcw %0" : "=m"(words.x87));
  words.sse &= ~0x3fu; /* flags of exceptions: the model may raise them */
#else
  __asm__ volatile("mrs %0, fpcr" : "=r"(words.control));
#endif
  return words;
}

static void require_kept(struct words before, const char* when) {
  const struct words after = read_words();
  if (memcmp(&before, &after, sizeof after) != 0) die(when, "the caller's control words changed");
}

int main(int argc, char** argv) {
  void* library;
  if (argc != 6) return 2;
  const int64_t size = atoll(argv[5]);
  const tfaot_model_table* model = open_model(argv[1], &library);
  const tfaot_info* info = model->info;
  tfaot_instance* instance = create(model, argv[2]);
  const tfaot_code* code;
  char message[TFAOT_MESSAGE_SIZE];
  if (model->select(model->target(instance), &code, message, sizeof message) != TFAOT_OK) die("select", message);
  const void* in[MOST];
  void *out[MOST], *expected[MOST];
  for (size_t i = 0; i < info->num_inputs; ++i) {
    void* data = malloc(bytes_of(&info->inputs[i], size));
    read_tensor(argv[3], info->inputs[i].name, data, bytes_of(&info->inputs[i], size));
    in[i] = data;
  }
  for (size_t i = 0; i < info->num_outputs; ++i) {
    out[i] = malloc(bytes_of(&info->outputs[i], size));
    expected[i] = malloc(bytes_of(&info->outputs[i], size));
  }
  if (model->run(instance, size, in, expected) != TFAOT_OK) die("run", model->message(instance));
  for (size_t i = 0; i < info->num_outputs; ++i) {
    write_tensor(argv[4], "nearest", size, info->outputs[i].name, expected[i], bytes_of(&info->outputs[i], size));
  }
  const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  for (int k = 0; k < 16; ++k) {
    fesetround(modes[k % 4]);
    if (k & 4) feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT);
    const struct words before = read_words();
    for (size_t i = 0; i < info->num_outputs; ++i) memset(out[i], 0x55, bytes_of(&info->outputs[i], size));
    const tfaot_status status = k & 8 ? model->compute(code, size, in, out, NULL, 0, message, sizeof message)
                                      : model->run(instance, size, in, out);
    require_kept(before, "after a call");
    if (status != TFAOT_OK) die("call", k & 8 ? message : model->message(instance));
    for (size_t i = 0; i < info->num_outputs; ++i) {
      if (memcmp(out[i], expected[i], bytes_of(&info->outputs[i], size)) != 0) die(info->outputs[i].name, "other bits");
    }
    if (model->run(instance, 0, in, out) == TFAOT_OK) die("no rows", "accepted");
    require_kept(before, "after an error");
    fedisableexcept(FE_ALL_EXCEPT);
  }
  model->destroy(instance);
  close_model(library);
  puts("kept");
  return 0;
}
