// The functions through which XLA's custom calls report success and failure (xla/service/custom_call_status.h).

#include <cstddef>

#include "adapter.h"

extern "C" {

void XlaCustomCallStatusSetSuccess(XlaCustomCallStatus* status) { status->failed = false; }

void XlaCustomCallStatusSetFailure(XlaCustomCallStatus* status, const char*, std::size_t) { status->failed = true; }

bool __xla_cpu_runtime_StatusIsSuccess(const void* status) {
  return !static_cast<const XlaCustomCallStatus*>(status)->failed;
}

}  // extern "C"
