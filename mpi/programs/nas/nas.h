// What the NAS Parallel Benchmark kernels share: classes, random numbers, time, the report.
//
// Written from the specification: D. Bailey et al., The NAS Parallel Benchmarks, RNR-94-007 (March
// 1994), and the class sizes of NPB 2 and 3. Each kernel is one program: `nas_kernel`, below.
#ifndef NAS_H
#define NAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The classes, as indices of a kernel's table of sizes.
enum nas_class { CLASS_S, CLASS_W, CLASS_A, CLASS_B, CLASSES };

// What a kernel found. On rank 0 all of it counts, elsewhere nothing does.
struct nas_result {
    double seconds;    // of the part that the specification times, on the slowest rank
    double operations; // as NPB counts them: Mop/s = operations / seconds / 1e6
    int iterations;
    bool verified;
    char size[64];     // "1400", "64x64x64": as NPB prints it
    char detail[1024]; // lines for people, each begun with a space: what was verified against what
};

// A kernel: each program holds exactly one.
struct nas_kernel {
    const char *name;      // "CG"
    const char *operation; // what is counted: "floating point"
    // Why it cannot run with so many ranks (a text), or NULL.
    const char *(*refuses)(enum nas_class class, int ranks);
    // Threads are set: `#pragma omp parallel` has as many as were asked for.
    void (*run)(enum nas_class class, struct nas_result *result);
};
extern const struct nas_kernel nas_kernel;

// Pseudo-random numbers: x' = a x mod 2^46, the number is x' 2^-46 (RNR-94-007, section 2.3). The
// product is taken mod 2^64, of which 2^46 is a divisor, so it is exact.
#define NAS_SEED 314159265U
#define NAS_A 1220703125U // 5^13
#define NAS_MASK ((UINT64_C(1) << 46) - 1)
#define NAS_SCALE 0x1p-46

// The next number in (0, 1).
static inline double nas_random(uint64_t *x, uint64_t a) {
    *x = (*x * a) & NAS_MASK;
    return (double)(int64_t)*x * NAS_SCALE;
}

// The next n numbers (NPB's vranlc).
void nas_randoms(size_t n, uint64_t *x, uint64_t a, double *numbers);

// a^n mod 2^46: `(x * nas_power(a, n)) & NAS_MASK` is x after n steps.
uint64_t nas_power(uint64_t a, uint64_t n);

// x after n steps.
uint64_t nas_jump(uint64_t x, uint64_t a, uint64_t n);

// Seconds of the monotonic clock.
double nas_now(void);

// All ranks are here: the time at which to begin.
double nas_begin(void);

// Seconds since, on the slowest rank.
double nas_since(double begin);

// Memory for n elements, aligned to a page and not touched: the thread that works on a part should
// be the first to write to it. Ends the program when there is none.
void *nas_allocate(size_t n, size_t size);

// Adds a line to the result's detail, printf-like.
void nas_detail(struct nas_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Whether value is within a relative tolerance of the reference; adds a line that shows both.
bool nas_agrees(struct nas_result *result, const char *name, double value, double reference,
                double tolerance);

// Prints NPB's block of fixed labels.
void nas_report(const struct nas_result *result, enum nas_class class, int threads);

// Ends all ranks with a message and status 2.
_Noreturn void nas_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
