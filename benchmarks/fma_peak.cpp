/* Fused multiply-adds per second of one or several threads: sums in registers, which nothing but the unit for them limits.
`machine.py` compiles it: c++ -O3 -std=c++17 -pthread -ffp-contract=fast -DWIDTH=16 -mavx512f fma_peak.cpp; WIDTH is the
number of floats of a vector register. Prints operations per second of CPU time, two for a multiply-add. */

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

typedef float Vec __attribute__((vector_size(4 * WIDTH)));

/* Sums that do not depend on each other: enough to hide the latency of two units, few enough for 16 registers. */
enum { N_SUMS = 12, N_ROUNDS = 1 << 20 };

static double measure_once() {
    volatile float input = 0.5f;
    const Vec factor = input - Vec{}, addend = factor;
    Vec sums[N_SUMS];
    for (int k = 0; k < N_SUMS; k++)
        sums[k] = factor * (float)k;
    timespec start, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    for (int round = 0; round < N_ROUNDS; round++) {
        for (int k = 0; k < N_SUMS; k++)
            sums[k] = sums[k] * factor + addend;
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    volatile float total = 0;
    for (const Vec &sum : sums)
        total = total + sum[0];
    return 2.0 * WIDTH * N_SUMS * N_ROUNDS / (double(end.tv_sec - start.tv_sec) + 1e-9 * double(end.tv_nsec - start.tv_nsec));
}

int main(int n_arguments, char **arguments) {
    std::vector<double> rates(n_arguments > 1 ? std::atoi(arguments[1]) : 1);
    std::vector<std::thread> threads;
    for (double &rate : rates)
        threads.emplace_back([&rate] {
            for (int round = 0; round < 20; round++) {
                const double found = measure_once();
                rate = found > rate ? found : rate;
            }
        });
    double total = 0;
    for (size_t k = 0; k < rates.size(); k++) {
        threads[k].join();
        total += rates[k];
    }
    std::printf("%.0f\n", total);
}
