// What libtorch_cpu.so asks of NVIDIA's libraries, for an image without them: there is no device, and
// nothing can be profiled. Built into libcudart.so.13 and libcupti.so.13, whose versions the loader
// checks; collect.sh compares this list with what the libtorch at hand really names.
#include <stddef.h>

#define ANSWER(name, code) \
  int name(void) { return code; }

#ifdef SWARM_CUDART
enum { kNoDevice = 100 };  // cudaErrorNoDevice
int cudaGetDeviceCount(int* count) {
  if (count != NULL) *count = 0;
  return kNoDevice;
}
const char* cudaGetErrorString(int error) {
  (void)error;
  return "this image has no CUDA";
}
ANSWER(cudaDeviceSynchronize, kNoDevice)
ANSWER(cudaDriverGetVersion, kNoDevice)
ANSWER(cudaGetDeviceProperties, kNoDevice)
ANSWER(cudaRuntimeGetVersion, kNoDevice)
#endif

#ifdef SWARM_CUPTI
enum { kNotSupported = 27 };  // CUPTI_ERROR_NOT_SUPPORTED
int cuptiGetResultString(int result, const char** text) {
  (void)result;
  if (text != NULL) *text = "this image has no CUDA";
  return 0;
}
ANSWER(cuptiActivityDisable, kNotSupported)
ANSWER(cuptiActivityEnable, kNotSupported)
ANSWER(cuptiActivityEnableCudaEventDeviceTimestamps, kNotSupported)
ANSWER(cuptiActivityEnableDriverApi, kNotSupported)
ANSWER(cuptiActivityEnableRuntimeApi, kNotSupported)
ANSWER(cuptiActivityFlushAll, kNotSupported)
ANSWER(cuptiActivityGetNextRecord, kNotSupported)
ANSWER(cuptiActivityGetNumDroppedRecords, kNotSupported)
ANSWER(cuptiActivityPopExternalCorrelationId, kNotSupported)
ANSWER(cuptiActivityPushExternalCorrelationId, kNotSupported)
ANSWER(cuptiActivityRegisterCallbacks, kNotSupported)
ANSWER(cuptiActivityRegisterTimestampCallback, kNotSupported)
ANSWER(cuptiActivitySetAttribute, kNotSupported)
ANSWER(cuptiEnableCallback, kNotSupported)
ANSWER(cuptiEnableDomain, kNotSupported)
ANSWER(cuptiFinalize, kNotSupported)
ANSWER(cuptiGetVersion, kNotSupported)
ANSWER(cuptiSubscribe, kNotSupported)
ANSWER(cuptiUnsubscribe, kNotSupported)
#endif
