/* Stands in for libnvidia-ml.so.1 below the real nvidia-ml-py: one GPU, the calls and layouts of nvml.h. */
#include <string.h>
typedef unsigned int u32;
typedef unsigned long long u64;
enum { OK = 0, NOT_SUPPORTED = 3 };
typedef struct { u32 field, scope; long long time, latency; u32 type, status; union { double d; u32 ui; u64 ull; } value; } Field;
typedef struct { u32 id, status; double value; const char *a, *b, *c; } Metric;
typedef struct { u32 version, count; void *one, *two; Metric metrics[]; } Metrics;
static int samples[8], taken;

int nvmlInitWithFlags(u32 f) { return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int e) { return "error"; }
int nvmlDeviceGetCount_v2(u32 *n) { *n = 1; return OK; }
int nvmlDeviceGetHandleByIndex_v2(u32 i, void **h) { *h = (void *)0x77; return OK; }
int nvmlDeviceGetCudaComputeCapability(void *h, int *a, int *b) { *a = 9; *b = 0; return OK; }
int nvmlDeviceGetNumGpuCores(void *h, u32 *n) { *n = 132 * 128; return OK; }
int nvmlDeviceGetMemoryBusWidth(void *h, u32 *n) { *n = 5120; return OK; }
int nvmlDeviceGetMaxClockInfo(void *h, u32 t, u32 *n) { *n = 2619; return OK; }
int nvmlDeviceGetClockInfo(void *h, u32 t, u32 *n) { *n = t == 1 ? 1755 : 2619; return OK; }
int nvmlDeviceGetUtilizationRates(void *h, u32 *n) { n[0] = 97; n[1] = 1; return OK; }
int nvmlDeviceGetMemoryInfo(void *h, u64 *n) { n[0] = 80; n[1] = 60; n[2] = 20; return OK; }
int nvmlDeviceGetTemperature(void *h, u32 t, u32 *n) { return NOT_SUPPORTED; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, u64 *n) { *n = 4; return OK; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, u32 *n, void *p) { *n = 0; return OK; }
int nvmlDeviceGetFieldValues(void *h, int n, Field *f) {
  for (int i = 0; i < n; i++) {
    f[i].status = OK;
    f[i].type = f[i].field == 186 ? 1 : 3;
    switch (f[i].field) {
    case 186: f[i].value.ui = 650123; break;
    case 83: f[i].value.ull = 5000500; break;
    case 138: case 139: if (f[i].scope != 0xffffffffu) return 2; f[i].value.ull = f[i].field; break;
    default: f[i].status = NOT_SUPPORTED;
    }
  }
  return OK;
}
int nvmlGpmQueryDeviceSupport(void *h, u32 *s) { if (s[0] != 1) return 25; s[1] = 1; return OK; }
int nvmlGpmSampleAlloc(void **s) { *s = &samples[taken++]; return OK; }
int nvmlGpmSampleFree(void *s) { return OK; }
int nvmlGpmSampleGet(void *h, int *s) { static int clock; *s = ++clock; return OK; }
int nvmlGpmMetricsGet(Metrics *m) {
  if (m->version != 1 || *(int *)m->two <= *(int *)m->one) return 2;
  for (u32 i = 0; i < m->count; i++) { m->metrics[i].status = OK; m->metrics[i].value = m->metrics[i].id; }
  return OK;
}
