// Stand-in for Abseil's header of this name: notes for sanitizers, which do not see into compiled models anyway.
#ifndef TFAOT_STAND_IN_DYNAMIC_ANNOTATIONS_H_
#define TFAOT_STAND_IN_DYNAMIC_ANNOTATIONS_H_

#define ABSL_ANNOTATE_MEMORY_IS_INITIALIZED(address, size)

#endif  // TFAOT_STAND_IN_DYNAMIC_ANNOTATIONS_H_
