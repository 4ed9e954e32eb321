#include "kittens.cuh"

__global__ void gemm(kittens::gl<float> c) {
  kittens::warpgroup::store(c, accumulator);
}
