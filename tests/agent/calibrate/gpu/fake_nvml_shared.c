/* The made-up NVML, whose GPU others use ($FAKE_NVML_USER, a pid) or that is cut into parts ($FAKE_NVML_MIG). */
#define nvmlDeviceGetComputeRunningProcesses_v3 nobody
#include "../../sources/fake_nvml.c"
#undef nvmlDeviceGetComputeRunningProcesses_v3
#include <stdlib.h>
typedef struct { u32 pid; u64 memory; u32 gpu_instance, compute_instance; } Process; /* nvmlProcessInfo_t */

int nvmlDeviceGetComputeRunningProcesses_v3(void *h, u32 *n, Process *p) {
  const char *user = getenv("FAKE_NVML_USER");
  if (h != (void *)0x77 || *n < 2) return 7;
  *n = 0;
  if (user) {
    p[0].pid = atoi(user);
    p[1].pid = p[0].pid + 1;
    *n = 2;
  }
  return OK;
}
int nvmlDeviceGetMigMode(void *h, u32 *now, u32 *pending) {
  *now = *pending = getenv("FAKE_NVML_MIG") != NULL;
  return OK;
}
