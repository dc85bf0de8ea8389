/* STREAM's triad, a[i] = b[i] + s * c[i], with OpenMP: what a compiler makes of it, to compare with.
 *
 * Usage: stream BYTES. Three arrays share BYTES; huge pages are asked for, as our own kernels do. For each
 * line "normal" or "non-temporal" on standard input it runs that kind of stores several times and answers with
 * the bytes per second of the fastest, 24 bytes an element. Ends with its input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#define RUNS 5

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static double *array(size_t n)
{
    size_t bytes = (n * sizeof(double) + (2u << 20) - 1) & ~(size_t)((2u << 20) - 1);
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    madvise(start, bytes, MADV_HUGEPAGE);
    return start;
}

static void normal(double *restrict a, const double *restrict b, const double *restrict c, double s, long n)
{
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        a[i] = b[i] + s * c[i];
}

/* n is a multiple of 4 and the arrays start on a page. */
static void non_temporal(double *restrict a, const double *restrict b, const double *restrict c, double s, long n)
{
#if defined(__AVX__)
    __m256d factor = _mm256_set1_pd(s);
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n / 4; i++) {
        __m256d product = _mm256_mul_pd(factor, _mm256_load_pd(c + 4 * i));
        _mm256_stream_pd(a + 4 * i, _mm256_add_pd(_mm256_load_pd(b + 4 * i), product));
    }
    _mm_sfence();
#elif defined(__SSE2__)
    __m128d factor = _mm_set1_pd(s);
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n / 2; i++) {
        __m128d product = _mm_mul_pd(factor, _mm_load_pd(c + 2 * i));
        _mm_stream_pd(a + 2 * i, _mm_add_pd(_mm_load_pd(b + 2 * i), product));
    }
    _mm_sfence();
#else
    (void)a, (void)b, (void)c, (void)s, (void)n;
#endif
}

int main(int argc, char **argv)
{
    long n = (argc > 1 ? atoll(argv[1]) : 1 << 28) / (long)(3 * sizeof(double)) / 4096 * 4096;
    double *a = array(n), *b = array(n), *c = array(n);
    char line[64];
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        a[i] = 0.5;
        b[i] = 1.25;
        c[i] = 2.0;
    }
    while (fgets(line, sizeof line, stdin)) {
        int past = !strncmp(line, "non-temporal", 12);
        double best = 1e30;
        for (int run = 0; run < RUNS; run++) {
            double begin = now();
            (past ? non_temporal : normal)(a, b, c, 3.0, n);
            double took = now() - begin;
            best = took < best ? took : best;
        }
        if (a[n / 2] != 7.25)
            best = 1e30; /* nothing was stored: no rate */
        printf("%.6e\n", 24.0 * n / best);
        fflush(stdout);
    }
    return 0;
}
