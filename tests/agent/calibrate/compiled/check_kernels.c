/* Runs one kernel of kernels.c on small numbers and prints what it computed, so that it can be tried on a
 * processor that is not here.
 *
 *   list                          name operation variant precision width chains updates flops, a line each
 *   peak NAME TURNS X Y SUM       lanes LOWEST HIGHEST of the sums, each begun at SUM; stamps
 *   stream NAME PASSES BLOCKS     total of the sums; first array: total, and whether the rest was touched
 */
#include "kernels.c"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Alignas(4096) char memory[4][1 << 16];

static void put(const char *precision, char *at, int count, double value)
{
    for (int i = 0; i < count; i++) {
        if (!strcmp(precision, "f64"))
            ((double *)at)[i] = value;
        else if (!strcmp(precision, "f32"))
            ((float *)at)[i] = (float)value;
#if defined(HAS_F16)
        else if (!strcmp(precision, "f16"))
            ((_Float16 *)at)[i] = (_Float16)value;
#endif
        else { /* bf16: the upper half of the f32 */
            float wide = (float)value;
            memcpy(at + 2 * i, (char *)&wide + 2, 2);
        }
    }
}

static double get(const char *precision, const char *at, int i)
{
#if defined(HAS_F16)
    if (!strcmp(precision, "f16"))
        return (double)((const _Float16 *)at)[i];
#endif
    return strcmp(precision, "f64") ? ((const float *)at)[i] : ((const double *)at)[i];
}

static void check_peak(const struct kernel *k, char **argument)
{
    const char *of_sums = strcmp(k->precision, "bf16") ? k->precision : "f32";
    int bytes = k->width / 8, element = !strcmp(k->precision, "f64") ? 8 : !strcmp(k->precision, "f32") ? 4 : 2;
    int sum_element = !strcmp(of_sums, "f64") ? 8 : !strcmp(of_sums, "f32") ? 4 : 2;
    int lanes = k->chains * bytes / sum_element;
    char *factors = memory[0], *sums = memory[1];
    put(k->precision, factors, bytes / element, atof(argument[1]));
    put(k->precision, factors + bytes, bytes / element, atof(argument[2]));
    put(of_sums, sums, lanes, atof(argument[3]));
    put(of_sums, sums + lanes * sum_element, 1, -7);
    k->function((u64)atoll(argument[0]), (u64)factors, (u64)sums, 0, 0, (u64)memory[3]);
    double low = get(of_sums, sums, 0), high = low;
    for (int i = 1; i < lanes; i++) {
        double lane = get(of_sums, sums, i);
        low = lane < low ? lane : low;
        high = lane > high ? lane : high;
    }
    const u64 *stamps = (const u64 *)(memory[3] + 72);
    printf("%d %a %a\n%d %d\n", lanes, low, high, get(of_sums, sums, lanes) == -7, stamps[1] > stamps[0]);
}

static void check_stream(const struct kernel *k, char **argument)
{
    long passes = atol(argument[0]), blocks = atol(argument[1]);
    long count = blocks * k->updates * k->width / 64, room = sizeof memory[0] / 8;
    double *a = (double *)memory[0], *b = (double *)memory[1], *c = (double *)memory[2];
    double *block = (double *)memory[3], sums = 0, total = 0;
    int untouched = 1;
    for (long i = 0; i < room; i++)
        a[i] = i + 1, b[i] = i + 2, c[i] = 2 * i;
    for (int i = 0; i < 8; i++)
        block[i] = 3;
    k->function((u64)passes, (u64)blocks, (u64)a, (u64)b, (u64)c, (u64)block);
    for (int i = 0; i < k->chains * k->width / 64; i++)
        sums += block[16 + i];
    for (long i = 0; i < room; i++)
        i < count ? (total += a[i]) : (untouched &= a[i] == i + 1);
    printf("%.17g %.17g %d %ld\n", sums, total, untouched, count);
}

int main(int argc, char **argv)
{
    for (const struct kernel *k = roofline_kernels; k->name; k++)
        if (argc == 2)
            printf("%s %s %s. %s %d %d %d %d\n", k->name, k->operation, k->variant, k->precision, k->width, k->chains,
                   k->updates, k->flops);
        else if (!strcmp(k->name, argv[2]))
            (k->flops ? check_peak : check_stream)(k, argv + 3);
    return 0;
}
