/* Wrong calls: each gives its status and a message, and the instance works on.
 *
 * usage: messages LIBRARY INPUTS OUTPUTS
 */
#include "model_under_test.h"

#define CHECK(condition) \
  if (!(condition)) die(#condition, "does not hold")

static void wrong_create(const tfaot_model_table* model) {
  char message[TFAOT_MESSAGE_SIZE];
  tfaot_instance* instance = (tfaot_instance*)&message;
  CHECK(model->create("nosuchcpu", &instance, message, sizeof message) == TFAOT_INVALID_ARGUMENT);
  CHECK(instance == NULL);
  puts(message);
  CHECK(model->create("", &instance, message, sizeof message) == TFAOT_INVALID_ARGUMENT);
  CHECK(model->create("nosuchcpu", &instance, NULL, 0) == TFAOT_INVALID_ARGUMENT);
  CHECK(model->create(NULL, NULL, message, sizeof message) == TFAOT_INVALID_ARGUMENT);
  puts(message);
  /* A message is cut to the room that there is, and ends with zero. */
  memset(message, 'x', sizeof message);
  CHECK(model->create("nosuchcpu", &instance, message, 6) == TFAOT_INVALID_ARGUMENT);
  CHECK(strcmp(message, "model") == 0 && message[6] == 'x');
  /* A name longer than any message. */
  char name[4 * TFAOT_MESSAGE_SIZE];
  memset(name, 'y', sizeof name);
  name[sizeof name - 1] = 0;
  CHECK(model->create(name, &instance, message, sizeof message) == TFAOT_INVALID_ARGUMENT);
  CHECK(strlen(message) == sizeof message - 1);
}

static void wrong_run(const tfaot_model_table* model, tfaot_instance* instance) {
  static float memory[4096];
  const void* inputs[] = {memory, memory};
  void* outputs[] = {memory + 2048, memory + 2048};
  const void* no_inputs[] = {NULL, NULL};
  void* no_outputs[] = {NULL, NULL};
  CHECK(strcmp(model->message(instance), "") == 0);
  CHECK(model->run(instance, 0, inputs, outputs) == TFAOT_NO_SUCH_BATCH_SIZE);
  puts(model->message(instance));
  CHECK(model->run(instance, -1, inputs, outputs) == TFAOT_NO_SUCH_BATCH_SIZE);
  CHECK(model->run(instance, INT64_MAX, inputs, outputs) == TFAOT_NO_SUCH_BATCH_SIZE);
  CHECK(model->run(instance, 1, no_inputs, outputs) == TFAOT_INVALID_ARGUMENT);
  puts(model->message(instance));
  CHECK(model->run(instance, 1, inputs, no_outputs) == TFAOT_INVALID_ARGUMENT);
  CHECK(model->run(instance, 1, NULL, outputs) == TFAOT_INVALID_ARGUMENT);
  CHECK(model->run(instance, 1, inputs, NULL) == TFAOT_INVALID_ARGUMENT);
  CHECK(model->run(NULL, 1, inputs, outputs) == TFAOT_INVALID_ARGUMENT);
}

int main(int argc, char** argv) {
  if (argc != 4) die("usage", "messages LIBRARY INPUTS OUTPUTS");
  void* library;
  const tfaot_model_table* model = open_model(argv[1], &library);
  wrong_create(model);
  tfaot_instance* instance = create(model, "-");
  wrong_run(model, instance);
  run_batch(model, instance, 1, ALIGNED, argv[2], argv[3]);
  model->destroy(instance);
  model->destroy(NULL);
  close_model(library);
  return 0;
}
