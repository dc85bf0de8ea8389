/* Stands in for libcuda.so.1: one GPU of 4 SMs and 1 MiB of L2, the calls and their arguments as cuda.h has
   them. A kernel is not run; what it was launched with is written to $FAKE_CUDA_LOG, and it takes 1 ms. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t Address;
static int initialised, current;
static double now_ms, event_ms[8];
static int events;
static char names[16][32];
static int functions, arrays;

static int ready(void) { return initialised && current; }
int cuInit(unsigned flags) { initialised = flags == 0; return !initialised; }
int cuDeviceGetCount(int *n) { *n = 1; return !initialised; }
int cuDeviceGet(int *device, int at) { *device = 40 + at; return at != 0; }
int cuDeviceGetUuid(unsigned char *uuid, int at) {
  for (int i = 0; i < 16; i++) uuid[i] = i;
  return at != 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  if (device != 40) return 101;
  *value = attribute == 16 ? 4 : attribute == 38 ? 1 << 20 : -1;
  return *value < 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)7; return device != 40; }
int cuCtxSetCurrent(void *context) { current = context == (void *)7; return !current; }
int cuCtxSynchronize(void) { return !ready(); }
int cuModuleLoadData(void **module, const char *image) {
  *module = (void *)8;
  return !ready() || !strstr(image, ".entry read");
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  if (module != (void *)8 || functions == 16) return 500;
  strncpy(names[functions], name, 31);
  *function = (void *)(intptr_t)(100 + functions++);
  return 0;
}
int cuMemGetInfo_v2(size_t *free, size_t *total) { *free = *total = (size_t)1 << 30; return !ready(); }
int cuMemAlloc_v2(Address *address, size_t size) {
  if (getenv("FAKE_CUDA_FULL")) return 2;
  *address = 0x7f0000000000ull + ((Address)arrays++ << 36) + (size == 0);
  return !ready();
}
int cuMemFree_v2(Address address) { arrays--; return address < 0x7f0000000000ull; }
int cuMemsetD32_v2(Address address, unsigned value, size_t words) {
  return address < 0x7f0000000000ull || !value || !words;
}
int cuEventCreate(void **event, unsigned flags) { *event = &event_ms[events++]; return !ready() || flags; }
int cuEventRecord(void *event, void *stream) { *(double *)event = now_ms; return stream != NULL; }
int cuEventSynchronize(void *event) { return event == NULL; }
int cuEventElapsedTime(float *ms, void *begin, void *end) {
  *ms = *(double *)end - *(double *)begin;
  return 0;
}
int cuGetErrorString(int status, const char **text) { *text = status == 2 ? "out of memory" : "unknown"; return 0; }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
  const char *name = names[(intptr_t)function - 100];
  if (!ready() || gy != 1 || gz != 1 || by != 1 || bz != 1 || shared || stream || extra) return 1;
  now_ms += 1;
  FILE *log = fopen(getenv("FAKE_CUDA_LOG"), "a");
  fprintf(log, "%s %u %u", name, gx, bx);
  if (!strcmp(name, "read"))
    for (int i = 1; i < 4; i++) fprintf(log, " %u", *(unsigned *)parameters[i]);
  if (!strcmp(name, "copy")) fprintf(log, " %u", *(unsigned *)parameters[2]);
  if (!strcmp(name, "triad")) fprintf(log, " %u", *(unsigned *)parameters[3]);
  if (!strcmp(name, "fma_f32")) fprintf(log, " %u %g", *(unsigned *)parameters[2], *(float *)parameters[0]);
  if (!strcmp(name, "fma_f64")) fprintf(log, " %u %g", *(unsigned *)parameters[2], *(double *)parameters[0]);
  fprintf(log, "\n");
  fclose(log);
  return 0;
}
