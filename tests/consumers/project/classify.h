// What the two translation units share: both include both models' headers.
#ifndef CLASSIFY_H_
#define CLASSIFY_H_

#include <vector>

#include <tfaot-model-digits/model.h>
#include <tfaot-model-wine/model.h>

// Probabilities of all classes, row after row.
std::vector<float> classify_digits(const std::vector<float>& images);
std::vector<float> classify_wines(const std::vector<float>& samples);

#endif  // CLASSIFY_H_
