#include "runtime/drivers/cpu/core/loops.h"

#ifdef __x86_64__

// Functions as the System V ABI has them, once for each width of vectors: arguments in rdi, rsi and rdx, and all vector
// registers theirs. The upper parts of those are cleared at the end, else code of narrow vectors would be slower.
asm(R"(
  .macro KILN_CORE_FUNCTION name
    .text
    .p2align 6
    .globl \name
    .hidden \name
    .type \name, @function
    \name:
  .endm

  .macro KILN_CORE_END name, first
      dec %rdi
      jnz \first
      vzeroupper
      ret
    .size \name, . - \name
  .endm

  .macro KILN_CORE_CLEAR
    .irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12
      vpxor %xmm\i, %xmm\i, %xmm\i
    .endr
  .endm

  .macro KILN_CORE_LOOPS width, v, bytes
    KILN_CORE_FUNCTION kiln_\width\()_fmas
      KILN_CORE_CLEAR
    1:
      .irp i, 0,1,2,3,4,5,6,7,8,9,10,11
      vfmadd231ps %\v\()12, %\v\()12, %\v\i
      .endr
    KILN_CORE_END kiln_\width\()_fmas, 1b

    KILN_CORE_FUNCTION kiln_\width\()_fma_chain
      KILN_CORE_CLEAR
    1:
      .rept 12
      vfmadd231ps %\v\()12, %\v\()12, %\v\()0
      .endr
    KILN_CORE_END kiln_\width\()_fma_chain, 1b

    KILN_CORE_FUNCTION kiln_\width\()_loads
      xchg %rdi, %rdx
    1:
      .irp i, 0,1,2,3,4,5,6,7
      vmovups \bytes*\i(%rdx), %\v\i
      .endr
      add %rsi, %rdx
    KILN_CORE_END kiln_\width\()_loads, 1b

    KILN_CORE_FUNCTION kiln_\width\()_stores
      xchg %rdi, %rdx
      KILN_CORE_CLEAR
    1:
      .irp i, 0,1,2,3,4,5,6,7
      vmovups %\v\i, \bytes*\i(%rdx)
      .endr
      add %rsi, %rdx
    KILN_CORE_END kiln_\width\()_stores, 1b
  .endm

  KILN_CORE_LOOPS wide, zmm, 64
  KILN_CORE_LOOPS narrow, ymm, 32

  KILN_CORE_FUNCTION kiln_wide_gathers
    xchg %rdi, %rdx
    KILN_CORE_CLEAR
    vmovups (%rsi), %zmm1
  1:
    kxnorw %k1, %k1, %k1
    vgatherqps (%rdx,%zmm1), %ymm0{%k1}
    add $4, %rdx
  KILN_CORE_END kiln_wide_gathers, 1b

  KILN_CORE_FUNCTION kiln_narrow_gathers
    xchg %rdi, %rdx
    KILN_CORE_CLEAR
    vmovups (%rsi), %ymm1
  1:
    vpcmpeqd %xmm2, %xmm2, %xmm2
    vgatherqps %xmm2, (%rdx,%ymm1), %xmm0
    add $4, %rdx
  KILN_CORE_END kiln_narrow_gathers, 1b

  # Of registers: a constant is added by some cores while they rename registers, several of them in a cycle.
  KILN_CORE_FUNCTION kiln_add_chain
    mov $1, %esi
  1:
    .rept 32
    add %rsi, %rax
    .endr
  KILN_CORE_END kiln_add_chain, 1b

  .purgem KILN_CORE_FUNCTION
  .purgem KILN_CORE_END
  .purgem KILN_CORE_CLEAR
  .purgem KILN_CORE_LOOPS
)");

extern "C" {
void kiln_wide_fmas(int64_t n);
void kiln_wide_fma_chain(int64_t n);
void kiln_wide_loads(const char* data, int64_t step, int64_t n);
void kiln_wide_stores(char* data, int64_t step, int64_t n);
void kiln_wide_gathers(const char* data, const int64_t* places, int64_t n);
void kiln_narrow_fmas(int64_t n);
void kiln_narrow_fma_chain(int64_t n);
void kiln_narrow_loads(const char* data, int64_t step, int64_t n);
void kiln_narrow_stores(char* data, int64_t step, int64_t n);
void kiln_narrow_gathers(const char* data, const int64_t* places, int64_t n);
void kiln_add_chain(int64_t n);
}

namespace kiln::runtime::cpu {
namespace {

constexpr VectorLoops kLoops[] = {
    {64, 8, kiln_wide_fmas, kiln_wide_fma_chain, kiln_wide_loads, kiln_wide_stores, kiln_wide_gathers},
    {32, 4, kiln_narrow_fmas, kiln_narrow_fma_chain, kiln_narrow_loads, kiln_narrow_stores, kiln_narrow_gathers},
};

}  // namespace

const VectorLoops* LoopsOf(uint32_t vector_bytes) {
  for (const VectorLoops& loops : kLoops) {
    if (loops.vector_bytes == vector_bytes) return &loops;
  }
  return nullptr;
}

void AddChain(int64_t n) { kiln_add_chain(n); }

}  // namespace kiln::runtime::cpu

#else

namespace kiln::runtime::cpu {

const VectorLoops* LoopsOf(uint32_t) { return nullptr; }
void AddChain(int64_t) {}

}  // namespace kiln::runtime::cpu

#endif  // __x86_64__
