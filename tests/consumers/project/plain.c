/* A model from C11, through tfaot/c_api.h alone: prints the accuracy over rows of float32 pixels and int64 labels.
 *
 * usage: plain PIXELS.bin LABELS.bin ROWS
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tfaot/c_api.h>

const tfaot_model_table* ENTRY(void);

static void* read_file(const char* path, size_t size) {
  void* data = malloc(size);
  FILE* file = fopen(path, "rb");
  if (data == NULL || file == NULL || fread(data, 1, size, file) != size) {
    fprintf(stderr, "cannot read %s\n", path);
    exit(1);
  }
  fclose(file);
  return data;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const size_t rows = (size_t)atol(argv[3]);
  const tfaot_model_table* model = ENTRY();
  const tfaot_info* info = model->info;
  /* Outputs are sorted by name: digit, then probability. */
  if (info->num_inputs != 1 || info->num_outputs != 2 || strcmp(info->outputs[0].name, "digit") != 0) return 3;
  const size_t row = (size_t)info->inputs[0].row_elements;
  float* pixels = read_file(argv[1], rows * row * sizeof(float));
  int64_t* labels = read_file(argv[2], rows * sizeof(int64_t));
  tfaot_instance* instance;
  char message[TFAOT_MESSAGE_SIZE];
  if (model->create(NULL, &instance, message, sizeof message) != TFAOT_OK) {
    fprintf(stderr, "%s\n", message);
    return 1;
  }
  size_t right = 0;
  for (size_t i = 0; i < rows; ++i) {
    int64_t digit[1];
    float probability[10];
    const void* inputs[] = {pixels + i * row};
    void* outputs[] = {digit, probability};
    if (model->run(instance, 1, inputs, outputs) != TFAOT_OK) {
      fprintf(stderr, "%s\n", model->message(instance));
      return 1;
    }
    right += digit[0] == labels[i];
  }
  printf("right %zu\n", right);
  model->destroy(instance);
  free(labels);
  free(pixels);
  return 0;
}
