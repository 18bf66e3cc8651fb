/* Steps of the model `counter` by its C interface; inputs come from standard input. Then its state, saved and restored. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tfaot-model-counter/entry.h>

static char message[TFAOT_MESSAGE_SIZE];

static void require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s: %s\n", what, message);
  exit(1);
}

static size_t bytes_of(const tfaot_tensor* tensor) {
  return (size_t)tensor->row_elements * (size_t)tensor->element_size;
}

int main(void) {
  const tfaot_model_table* model = tfaot_model_counter();
  const tfaot_info* info = model->info;
  const tfaot_code* code;
  float x[2];
  const void* inputs[8];
  void* outputs[8];
  void* now[8];
  void* saved;
  size_t total = 0, steps = 0, i, size;
  require(model->select(NULL, &code, message, sizeof message) == TFAOT_OK, "select");
  for (i = 0; i < info->num_inputs; ++i) inputs[i] = x; /* the only input that is no state */
  for (i = 0; i < info->num_outputs; ++i) {
    outputs[i] = calloc(1, bytes_of(&info->outputs[i]));
    if (strcmp(info->outputs[i].name, "total") == 0) total = i;
    if (strcmp(info->outputs[i].name, "steps") == 0) steps = i;
  }
  for (i = 0; i < info->num_states; ++i) {
    const size_t bytes = bytes_of(&info->inputs[info->states[i].input]);
    now[i] = malloc(bytes);
    memcpy(now[i], info->states[i].initial, bytes);
    inputs[info->states[i].input] = now[i];
  }
  while (fread(x, sizeof x, 1, stdin) == 1) {
    require(model->compute(code, 1, inputs, outputs, NULL, 0, message, sizeof message) == TFAOT_OK, "compute");
    for (i = 0; i < info->num_states; ++i) {
      const int64_t next = info->states[i].output;
      if (next >= 0) memcpy(now[i], outputs[next], bytes_of(&info->outputs[next]));
    }
    printf("%.9g %.9g %lld\n", ((float*)outputs[total])[0], ((float*)outputs[total])[1],
           (long long)*(int64_t*)outputs[steps]);
  }
  size = model->state_bytes();
  saved = malloc(size);
  require(model->save_state((const void* const*)now, saved, size, message, sizeof message) == TFAOT_OK, "save");
  for (i = 0; i < info->num_states; ++i) memset(now[i], 0, bytes_of(&info->inputs[info->states[i].input]));
  require(model->restore_state(saved, size, now, message, sizeof message) == TFAOT_OK, "restore");
  require(model->restore_state(saved, size - 1, now, message, sizeof message) == TFAOT_INVALID_ARGUMENT, "foreign");
  require(model->save_state((const void* const*)now, saved, size + 1, message, sizeof message) != TFAOT_OK, "room");
  puts("restored; foreign bytes refused");
  free(saved);
  for (i = 0; i < info->num_states; ++i) free(now[i]);
  for (i = 0; i < info->num_outputs; ++i) free(outputs[i]);
  model->release();
  return 0;
}
