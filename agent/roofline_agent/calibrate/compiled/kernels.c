/* Kernels that measure ceilings, for the compiler of the node; kernels.py says what each is called with.
 *
 * A peak kernel multiplies and adds in registers, a stream kernel runs through memory. Behind each, in the same
 * call, dependent additions are timed: one a cycle, so they tell the core's clock. The list at the end says what
 * was compiled; whoever calls a kernel counts by that. Nothing may be left out by the compiler: sums are read
 * from memory and stored to it, x changes before each product as far as the compiler can tell, and memory after
 * each pass.
 */
#include <stdint.h>
#include <stddef.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

typedef uint64_t u64;
#define ARGUMENTS u64 n, u64 p1, u64 p2, u64 p3, u64 p4, u64 block

/* -- what differs between processors ---------------------------------------------------------------------- */

/* KEEP: the compiler must take the value for another one, in a register. CHAINS: sums that are added to in turn,
 * enough for 4 units with a latency of 4 cycles where there are 32 registers. */
#if defined(__AVX512F__)
#define KEEP(value) __asm__ volatile("" : "+v"(value))
#define CHAINS 24
#elif defined(__x86_64__)
#define KEEP(value) __asm__ volatile("" : "+x"(value))
#define CHAINS 12
#elif defined(__aarch64__)
#define KEEP(value) __asm__ volatile("" : "+w"(value))
#define CHAINS 24
#else
#define KEEP(value) __asm__ volatile("" : "+f"(value))
#define CHAINS 24
#endif

#if defined(__x86_64__)
#define ADD(sum, addend) "add %" addend ", %" sum "\n"
#elif defined(__aarch64__)
#define ADD(sum, addend) "add %" sum ", %" sum ", %" addend "\n"
#endif

#if defined(__aarch64__) || defined(__x86_64__)
#define HAS_128 1
#endif
#if defined(__AVX__)
#define HAS_256 1
#elif defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS == 256
#define HAS_256 1
#endif
#if defined(__AVX512F__)
#define HAS_512 1
#elif defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS == 512
#define HAS_512 1
#endif
#if defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC) || defined(__AVX512FP16__)
#define HAS_F16 1
#endif

#if defined(__FMA__) || !defined(__x86_64__)
#define HAS_FMA 1
#endif

/* -- the clock -------------------------------------------------------------------------------------------- */

#define CLOCK_TURNS 800 /* kernels.py: CLOCK_TURNS of CLOCK_ADDITIONS_A_TURN (64) */

#if defined(ADD)
static u64 now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}

static __attribute__((noinline)) void probe(u64 block)
{
    u64 *stamps = (u64 *)(block + 72), sum = block, addend = 3;
    stamps[0] = now_ns();
    for (int turn = 0; turn < CLOCK_TURNS; turn++)
        __asm__ volatile(".rept 64\n" ADD("0", "1") ".endr" : "+r"(sum) : "r"(addend));
    stamps[1] = now_ns();
}
#else
static void probe(u64 block) { (void)block; }
#endif

/* -- multiply-adds in registers ---------------------------------------------------------------------------- */

#define EACH_12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define EACH_24(X) EACH_12(X) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)
#if CHAINS == 24
#define EACH(X) EACH_24(X)
#else
#define EACH(X) EACH_12(X)
#endif
#define UPDATES 4 /* of each chain, in an iteration */

#define LOAD(i) s##i = sums[i];
#define DECLARE(i) s##i,
#define STORE(i) sums[i] = s##i;
#define FUSED(i) KEEP(x); s##i += x * y;
/* The product must be there before it is added: they are not fused. */
#define UNFUSED(i) KEEP(x); product = x * y; KEEP(product); s##i += product;
#define DOT(i) KEEP(x); s##i = vbfdotq_f32(s##i, x, y);
#define MATRIX(i) KEEP(x); s##i = vbfmmlaq_f32(s##i, x, y);

#define PEAK(name, SUM, FACTOR, UPDATE)                                                                             \
    static void name(ARGUMENTS)                                                                                     \
    {                                                                                                               \
        const FACTOR *factors = (const FACTOR *)p1;                                                                 \
        SUM *sums = (SUM *)p2, EACH(DECLARE) product;                                                               \
        FACTOR x = factors[0], y = factors[1];                                                                      \
        (void)p3, (void)p4, (void)product;                                                                          \
        EACH(LOAD)                                                                                                  \
        while (n--) {                                                                                               \
            EACH(UPDATE) EACH(UPDATE) EACH(UPDATE) EACH(UPDATE)                                                     \
        }                                                                                                           \
        EACH(STORE)                                                                                                 \
        probe(block);                                                                                               \
    }

#if defined(HAS_FMA)
#define PEAKS(TYPE, precision, width)                                                                               \
    PEAK(fma_##precision##_##width, TYPE, TYPE, FUSED) PEAK(mul_add_##precision##_##width, TYPE, TYPE, UNFUSED)
#else
#define PEAKS(TYPE, precision, width) PEAK(mul_add_##precision##_##width, TYPE, TYPE, UNFUSED)
#endif

PEAKS(double, f64, scalar)
PEAKS(float, f32, scalar)
#if defined(HAS_F16)
PEAKS(_Float16, f16, scalar)
#endif
#define VECTORS(width)                                                                                              \
    typedef double f64_##width __attribute__((vector_size(width / 8), may_alias));                                  \
    typedef float f32_##width __attribute__((vector_size(width / 8), may_alias));                                   \
    PEAKS(f64_##width, f64, width) PEAKS(f32_##width, f32, width)
#define HALF_VECTORS(width)                                                                                         \
    typedef _Float16 f16_##width __attribute__((vector_size(width / 8), may_alias));                                \
    PEAKS(f16_##width, f16, width)
#if defined(HAS_128)
VECTORS(128)
#if defined(HAS_F16)
HALF_VECTORS(128)
#endif
#endif
#if defined(HAS_256)
VECTORS(256)
#if defined(HAS_F16)
HALF_VECTORS(256)
#endif
#endif
#if defined(HAS_512)
VECTORS(512)
#if defined(HAS_F16)
HALF_VECTORS(512)
#endif
#endif
#if defined(__aarch64__) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
PEAK(dot_bf16_128, float32x4_t, bfloat16x8_t, DOT)
PEAK(mmla_bf16_128, float32x4_t, bfloat16x8_t, MATRIX)
#endif

/* -- memory ------------------------------------------------------------------------------------------------ */

#define READ_CHAINS 12
#define UNROLL 4
#define AHEAD 2048 /* bytes: hardware prefetchers stop at each page, one that is asked does not */
#define PASS_ENDS __asm__ volatile("" ::: "memory")

#define SUM_NEXT(i) s##i += at[i];
#define READ(name, V, PREFETCH)                                                                                     \
    static void name(ARGUMENTS)                                                                                     \
    {                                                                                                               \
        V *sums = (V *)(block + 128), EACH_12(DECLARE) unused;                                                      \
        u64 blocks = p1;                                                                                            \
        (void)p3, (void)p4, (void)unused;                                                                           \
        EACH_12(LOAD)                                                                                               \
        while (n--) {                                                                                               \
            const V *at = (const V *)p2;                                                                            \
            for (u64 i = 0; i < blocks; i++, at += READ_CHAINS) {                                                   \
                PREFETCH(at, READ_CHAINS * sizeof(V))                                                               \
                EACH_12(SUM_NEXT)                                                                                   \
            }                                                                                                       \
            PASS_ENDS;                                                                                              \
        }                                                                                                           \
        EACH_12(STORE)                                                                                              \
        probe(block);                                                                                               \
    }
#define NO_PREFETCH(at, size)
#define PREFETCH_LINES(at, size)                                                                                    \
    for (size_t offset = 0; offset < size; offset += 64)                                                            \
        __builtin_prefetch((const char *)at + offset + AHEAD);

/* Each turn makes UNROLL vectors of a from the same of b and c. */
#define WRITE(name, V, MAKE, STORE_TURN)                                                                            \
    static void name(ARGUMENTS)                                                                                     \
    {                                                                                                               \
        u64 blocks = p1;                                                                                            \
        V scale = *(const V *)block;                                                                                \
        (void)p4, (void)scale;                                                                                      \
        while (n--) {                                                                                               \
            V *restrict a = (V *)p2;                                                                                \
            const V *restrict b = (const V *)p3, *restrict c = (const V *)p4;                                       \
            for (u64 i = 0; i < blocks; i++, a += UNROLL, b += UNROLL, c += UNROLL) {                               \
                V v0 = MAKE(0), v1 = MAKE(1), v2 = MAKE(2), v3 = MAKE(3);                                           \
                STORE_TURN()                                                                                        \
            }                                                                                                       \
            PASS_ENDS;                                                                                              \
        }                                                                                                           \
        __sync_synchronize();                                                                                       \
        probe(block);                                                                                               \
    }
#define COPIED(i) b[i]
#define TRIAD(i) b[i] + scale * c[i]
#define STORE_NORMAL() a[0] = v0, a[1] = v1, a[2] = v2, a[3] = v3;

#define STREAMS(V, width)                                                                                           \
    READ(read_##width, V, NO_PREFETCH) READ(read_ahead_##width, V, PREFETCH_LINES)                                  \
    WRITE(copy_##width, V, COPIED, STORE_NORMAL) WRITE(triad_##width, V, TRIAD, STORE_NORMAL)
#define PAST_CACHES(V, width, STORE_PAST)                                                                           \
    WRITE(copy_past_##width, V, COPIED, STORE_PAST) WRITE(triad_past_##width, V, TRIAD, STORE_PAST)

#if !defined(HAS_128)
STREAMS(double, scalar)
#else
STREAMS(f64_128, 128)
#if defined(__aarch64__)
#define STORE_PAIR(i, v, w) __asm__ volatile("stnp %q1, %q2, [%0]" : : "r"(a + i), "w"(v), "w"(w) : "memory");
#define STORE_PAST_128() STORE_PAIR(0, v0, v1) STORE_PAIR(2, v2, v3)
#else
#define STORE_PAST_128()                                                                                            \
    _mm_stream_pd((double *)a, v0), _mm_stream_pd((double *)(a + 1), v1);                                           \
    _mm_stream_pd((double *)(a + 2), v2), _mm_stream_pd((double *)(a + 3), v3);
#endif
PAST_CACHES(f64_128, 128, STORE_PAST_128)
#endif
#if defined(HAS_256)
STREAMS(f64_256, 256)
#if defined(__AVX__)
#define STORE_PAST_256()                                                                                            \
    _mm256_stream_pd((double *)a, v0), _mm256_stream_pd((double *)(a + 1), v1);                                     \
    _mm256_stream_pd((double *)(a + 2), v2), _mm256_stream_pd((double *)(a + 3), v3);
PAST_CACHES(f64_256, 256, STORE_PAST_256)
#endif
#endif
#if defined(HAS_512)
STREAMS(f64_512, 512)
#endif

/* -- the list ---------------------------------------------------------------------------------------------- */

struct kernel {
    const char *name;      /* "fma_f64_128" */
    const char *operation; /* "fma", "mul_add", "dot", "mmla"; "read", "copy", "triad" */
    const char *variant;   /* of a stream: "", "ahead" (prefetches), "past" (stores past the caches) */
    const char *precision;
    int width;             /* bits */
    int chains;            /* sums, each of a vector; of a stream that writes none */
    int updates;           /* of each chain in an iteration; of a stream vectors of each array in a block */
    int flops;             /* of an iteration, 0 of a stream */
    void (*function)(ARGUMENTS);
};

#define LIST_PEAK(operation, precision, width, bits, flops_an_update)                                               \
    {#operation "_" #precision "_" #width, #operation, "", #precision, bits, CHAINS, UPDATES,                       \
     CHAINS * UPDATES * (flops_an_update), operation##_##precision##_##width},
#if defined(HAS_FMA)
#define LIST_PEAKS(precision, width, bits, lanes)                                                                   \
    LIST_PEAK(fma, precision, width, bits, 2 * (lanes)) LIST_PEAK(mul_add, precision, width, bits, 2 * (lanes))
#else
#define LIST_PEAKS(precision, width, bits, lanes) LIST_PEAK(mul_add, precision, width, bits, 2 * (lanes))
#endif
#define LIST_VECTORS(width) LIST_PEAKS(f64, width, width, width / 64) LIST_PEAKS(f32, width, width, width / 32)
#define LIST_HALF_VECTORS(width) LIST_PEAKS(f16, width, width, width / 16)
#define LIST_STREAM(function, operation, variant, bits, chains, vectors)                                            \
    {#function, operation, variant, "f64", bits, chains, vectors, 0, function},
#define LIST_STREAMS(width, bits)                                                                                   \
    LIST_STREAM(read_##width, "read", "", bits, READ_CHAINS, READ_CHAINS)                                           \
    LIST_STREAM(read_ahead_##width, "read", "ahead", bits, READ_CHAINS, READ_CHAINS)                                \
    LIST_STREAM(copy_##width, "copy", "", bits, 0, UNROLL)                                                          \
    LIST_STREAM(triad_##width, "triad", "", bits, 0, UNROLL)
#define LIST_PAST(width)                                                                                            \
    LIST_STREAM(copy_past_##width, "copy", "past", width, 0, UNROLL)                                                \
    LIST_STREAM(triad_past_##width, "triad", "past", width, 0, UNROLL)

const struct kernel roofline_kernels[] = {
    LIST_PEAKS(f64, scalar, 64, 1)
    LIST_PEAKS(f32, scalar, 32, 1)
#if defined(HAS_F16)
    LIST_PEAKS(f16, scalar, 16, 1)
#endif
#if defined(HAS_128)
    LIST_VECTORS(128) LIST_STREAMS(128, 128) LIST_PAST(128)
#if defined(HAS_F16)
    LIST_HALF_VECTORS(128)
#endif
#else
    LIST_STREAMS(scalar, 64)
#endif
#if defined(HAS_256)
    LIST_VECTORS(256) LIST_STREAMS(256, 256)
#if defined(__AVX__)
    LIST_PAST(256)
#endif
#if defined(HAS_F16)
    LIST_HALF_VECTORS(256)
#endif
#endif
#if defined(HAS_512)
    LIST_VECTORS(512) LIST_STREAMS(512, 512)
#if defined(HAS_F16)
    LIST_HALF_VECTORS(512)
#endif
#endif
#if defined(__aarch64__) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    LIST_PEAK(dot, bf16, 128, 128, 4 * 4)   /* 4 sums, 2 products each */
    LIST_PEAK(mmla, bf16, 128, 128, 2 * 16) /* 2 x 2 sums, 4 products each */
#endif
    {NULL, NULL, NULL, NULL, 0, 0, 0, 0, NULL},
};
