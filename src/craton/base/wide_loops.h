#pragma once

/// In front of a function with a hot loop: it is compiled twice, and the processor picks. The
/// arithmetic of both is the same, bit for bit: AVX2 alone brings no fused multiplication. Nothing
/// under sanitizers, which start before the choice can be made.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CRATON_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define CRATON_WIDE
#endif
