/* tfaot-model-affine 1.2.0: its entry function, for programs in C. C++ has model.h. */
#ifndef TFAOT_MODEL_AFFINE_0123456789AB_ENTRY_H_
#define TFAOT_MODEL_AFFINE_0123456789AB_ENTRY_H_

#include <tfaot/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

const tfaot_model_table* tfaot_model_affine_0123456789ab(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

/* The model's entry function, under a name that is the same in every version. */
static inline const tfaot_model_table* tfaot_model_affine(void) { return tfaot_model_affine_0123456789ab(); }

#endif /* TFAOT_MODEL_AFFINE_0123456789AB_ENTRY_H_ */
