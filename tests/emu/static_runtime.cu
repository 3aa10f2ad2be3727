// static_runtime.cu: plain nvcc makes a program of this with the static runtime in it, and the
// emulator runs it unchanged: kernels, symbols, managed memory, streams, events, a graph.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

__constant__ float scale[2];
__device__ unsigned counted;
__managed__ int seen;

template <int STEP> __global__ void add(const float *a, float *c, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    c[i] = a[i] * scale[1] + STEP;
    atomicAdd(&counted, 1);
    if (i == n - 1)
        seen = STEP;
}

static int failed;
static void expect(cudaError_t e, const char *what) {
    if (e) {
        printf("%s: %s\n", what, cudaGetErrorString(e));
        failed = 1;
    }
}
#define CALL(x) expect(x, #x)

int main() {
    enum { N = 1000 };
    const float factors[2] = {0, 3};
    float *a = nullptr, *c = nullptr, h[N];
    unsigned times = 0;
    cudaStream_t s;
    cudaEvent_t e;
    cudaGraph_t g;
    cudaGraphExec_t x;
    CALL(cudaMallocManaged(&a, sizeof h));
    CALL(cudaMalloc(&c, sizeof h));
    for (int i = 0; i < N && a; i++)
        a[i] = (float)i;
    CALL(cudaMemcpyToSymbol(scale, factors, sizeof factors));
    add<1><<<(N + 127) / 128, 128>>>(a, c, N);
    CALL(cudaGetLastError());
    CALL(cudaDeviceSynchronize());
    CALL(cudaStreamCreate(&s));
    CALL(cudaEventCreate(&e));
    CALL(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    add<2><<<(N + 127) / 128, 128, 0, s>>>(a, c, N);
    CALL(cudaStreamEndCapture(s, &g));
    CALL(cudaGraphInstantiate(&x, g, 0));
    CALL(cudaGraphLaunch(x, s));
    CALL(cudaEventRecord(e, s));
    CALL(cudaEventSynchronize(e));
    CALL(cudaMemcpy(h, c, sizeof h, cudaMemcpyDeviceToHost));
    CALL(cudaMemcpyFromSymbol(&times, counted, sizeof times));
    for (int i = 0; i < N; i++)
        failed |= h[i] != 3.f * (float)i + 2.f;
    printf("%s: counted %u, seen %d\n", failed ? "wrong" : "right", times, seen);
    return failed || times != 2 * N || seen != 2;
}
