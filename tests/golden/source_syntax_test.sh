#!/bin/sh
# The goldens of source are programs: each is parsed by a compiler of its language.
# What a vendor's headers would declare, a few lines here do.
set -eu
dir=${TEST_TMPDIR:-$(mktemp -d)}
cat > "$dir/cuda.h" <<'H'
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
struct kiln_dim3 { unsigned x, y, z; };
extern __device__ const kiln_dim3 blockIdx, threadIdx, blockDim;
__device__ float __int_as_float(int);
__device__ int max(int, int);
__device__ void __syncthreads();
__device__ int atomicAdd(int*, int);
__device__ float sqrtf(float);
struct __attribute__((aligned(16))) float4 { float x, y, z, w; };
__device__ float4 make_float4(float, float, float, float);
H
mkdir -p "$dir/hip"
printf '#include "%s/cuda.h"\n#define INFINITY __builtin_inff()\n' "$dir" > "$dir/hip/hip_runtime.h"
cat > "$dir/metal_stdlib" <<'H'
#include <math.h>
#define kernel
#define device
#define constant const
#define threadgroup static
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
struct uint3 { uint x, y, z; };
struct float4 { float x, y, z, w; float4(float a, float b, float c, float d) : x(a), y(b), z(c), w(d) {} };
struct atomic_int;
enum { memory_order_relaxed };
void atomic_fetch_add_explicit(volatile atomic_int*, int, int);
namespace metal {
template <class T, class U> T as_type(U from) { T to; __builtin_memcpy(&to, &from, sizeof(to)); return to; }
inline int max(int a, int b) { return a < b ? b : a; }
struct mem_flags { enum { mem_threadgroup = 1, mem_device = 2 }; };
void threadgroup_barrier(int);
}
H
parsed=0
for golden in tests/golden/source/*/*.uop; do
  language=$(basename "$(dirname "$golden")")
  text=$dir/$language.txt
  sed '1,/^# ----$/d' "$golden" > "$text"
  case $language in
    c) cc -x c -std=gnu11 -Wall -Werror -fsyntax-only "$text" ;;
    opencl) clang-22 -x cl -cl-std=CL1.2 -Wall -Werror -fsyntax-only "$text" ;;
    cuda) clang-22 -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -nocudainc -nocudalib -include "$dir/cuda.h" \
      -Werror -fsyntax-only "$text" ;;
    hip) clang-22 -x hip --cuda-device-only --offload-arch=gfx942 -nogpuinc -nogpulib -I "$dir" -Werror \
      -fsyntax-only "$text" ;;
    metal) clang++-22 -x c++ -I "$dir" -Werror -Wno-unknown-attributes -fsyntax-only "$text" ;;
    *) echo "no compiler for $golden"; exit 1 ;;
  esac || { echo "in $golden"; exit 1; }
  parsed=$((parsed + 1))
done
[ $parsed -ge 30 ] || { echo "only $parsed goldens"; exit 1; }
