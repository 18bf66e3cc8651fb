/* Accuracy of the model `digits` on images that it has not seen in training.
 *
 * usage: digits-accuracy FILE.csv
 *
 * Each line of the file is one image: 64 pixels from 0 to 16, row by row, then the digit that it shows.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tfaot-model-digits/entry.h>

enum { PIXELS = 64, CLASSES = 10 };

/* Images one after another, as the model takes them, and their digits. */
struct images {
  float* pixels;
  int64_t* labels;
  size_t count;
};

static void fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void* grown(void* memory, size_t size) {
  void* larger = realloc(memory, size);
  if (larger == NULL) fail("images", "out of memory");
  return larger;
}

/* Read one number and the separator after it: a comma, or the end of the line. */
static int read_number(FILE* file, double* number, int* separator) {
  if (fscanf(file, "%lf", number) != 1) return 0;
  do *separator = fgetc(file);
  while (*separator == '\r');
  return 1;
}

static struct images read_csv(const char* path) {
  FILE* file = fopen(path, "r");
  if (file == NULL) fail(path, "cannot be opened");
  struct images images = {NULL, NULL, 0};
  double number;
  int separator;
  while (read_number(file, &number, &separator)) {
    images.pixels = grown(images.pixels, (images.count + 1) * PIXELS * sizeof(float));
    images.labels = grown(images.labels, (images.count + 1) * sizeof(int64_t));
    for (size_t i = 0; i < PIXELS; ++i) {
      images.pixels[images.count * PIXELS + i] = (float)number;
      if (separator != ',' || !read_number(file, &number, &separator)) fail(path, "a line is too short");
    }
    if (separator == ',') fail(path, "a line is too long");
    images.labels[images.count++] = (int64_t)number;
  }
  fclose(file);
  return images;
}

/* The model must be the one that this program was written for: one input of 64 floats, two outputs. */
static void check_interface(const tfaot_info* info) {
  if (info->num_inputs != 1 || info->inputs[0].dtype != TFAOT_FLOAT32 || info->inputs[0].row_elements != PIXELS ||
      info->num_outputs != 2 || strcmp(info->outputs[0].name, "digit") != 0 || info->outputs[0].dtype != TFAOT_INT64 ||
      strcmp(info->outputs[1].name, "probability") != 0 || info->outputs[1].row_elements != CLASSES) {
    fail(info->name, "is another model than this program knows");
  }
}

/* The largest compiled batch size that is at most `rows`; 0 if there is none. */
static size_t next_batch(const tfaot_info* info, size_t rows) {
  size_t size = 0;
  for (size_t i = 0; i < info->num_batch_sizes && (size_t)info->batch_sizes[i] <= rows; ++i) {
    size = (size_t)info->batch_sizes[i];
  }
  return size;
}

static size_t count_right(const tfaot_model_table* model, const tfaot_code* code, const struct images* images) {
  char message[TFAOT_MESSAGE_SIZE];
  int64_t* digit = grown(NULL, images->count * sizeof(int64_t));
  float* probability = grown(NULL, images->count * CLASSES * sizeof(float));
  size_t right = 0;
  for (size_t row = 0; row < images->count;) {
    const size_t size = next_batch(model->info, images->count - row);
    if (size == 0) fail(model->info->name, "has no batch size for the last images");
    const void* inputs[] = {images->pixels + row * PIXELS};
    void* outputs[] = {digit + row, probability + row * CLASSES};
    if (model->compute(code, (int64_t)size, inputs, outputs, NULL, 0, message, sizeof message) != TFAOT_OK) {
      fail("compute", message);
    }
    for (const size_t end = row + size; row < end; ++row) right += digit[row] == images->labels[row];
  }
  free(probability);
  free(digit);
  return right;
}

int main(int argc, char** argv) {
  if (argc != 2) fail("usage", "digits-accuracy FILE.csv");
  const tfaot_model_table* model = tfaot_model_digits();
  check_interface(model->info);
  struct images images = read_csv(argv[1]);
  if (images.count == 0) fail(argv[1], "holds no images");

  const tfaot_code* code;  /* constant, for all threads; nothing to free */
  char message[TFAOT_MESSAGE_SIZE];
  if (model->select(NULL, &code, message, sizeof message) != TFAOT_OK) fail("select", message);
  const size_t right = count_right(model, code, &images);

  printf("accuracy on %zu held-out images: %.1f %%\n", images.count, 100.0 * (double)right / (double)images.count);
  free(images.labels);
  free(images.pixels);
  return 0;
}
