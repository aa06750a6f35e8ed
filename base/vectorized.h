// Loops that are compiled for several instruction sets; the processor chooses at run time.
#pragma once

// All of them give the same bits for IEEE operations in a fixed order: nothing is contracted.
#if defined(__SANITIZE_THREAD__)
// The choice among clones is made before the sanitizer can observe it.
#define SWARM_VECTORIZED
#else
#define SWARM_VECTORIZED \
  __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#endif
