__global__ void notify(int* arrived_on_peer) {
  if (threadIdx.x == 0) {
    atomicAdd_system(arrived_on_peer, 1);
  }
}
