// How the bodies of kernels are written, so that the compiler of the host builds and runs the same
// text, and tests compare it with the CPU's code where there is no GPU.
//
// A body does the work of one *team*: kLanes lanes that run beside each other. It hands the team
// *phases*, functions of a lane; all lanes have done one phase before the next begins. So a body
// names no thread and no barrier. WarpTeam (warp_team.cuh) runs a phase on the threads of a warp,
// HostTeam (testing/host_team.h) one lane after the other, in any order. Both do the same
// operations on every number and sum in the same order: the results are equal bit for bit, provided
// that no compiler joins a multiply and an add (-ffp-contract=off, -fmad=false) or flushes
// denormals.
//
// A team has:
//   Each(phase)             runs phase(lane)
//   Once(action)            runs action() on one lane
//   Max(phase), Or(phase)   of the std::uint32_t, or std::uint64_t, that phase(lane) returns
//   SumInOrder(start, phase)
//                           start, plus the double that phase(0) returns, plus that of phase(1),
//                           ... All lanes get the result of these three.
//   Lower(word, value), Raise(word, value), SetBits(word, value)
//                           *word = min, max, or of it and value. Other teams may do so at the same
//                           time: the order of these does not change the result.
#pragma once

// Marks what the host and the device compile. CUDA's compiler alone needs to be told.
#ifdef __CUDACC__
#define SWARM_BODY __host__ __device__ inline
#else
#define SWARM_BODY inline
#endif
