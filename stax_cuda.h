/* stax_cuda.h - v0.1.0 - Stax programs on NVIDIA GPUs. Licence: MIT, at the end of stax.h.

   PROMISES      The loop trees of stax.h printed as CUDA C++, compiled by NVRTC for the device.
                 Driver and NVRTC are found at run time: nothing is linked, no CUDA header is
                 needed, and a machine without a GPU runs the same program on its CPU. Elementwise
                 functions, sums and f32 contractions without tensor cores have the CPU's bits.

   STATE         Not built yet: the declarations below are there so that hosts can be written, and
                 each call that needs a device gives STAX_E_NOT_BUILT with a message.

   QUICK START   In one C file of your program, after or instead of the same two lines for stax.h:
                     #define STAX_IMPLEMENTATION
                     #include "stax_cuda.h"

   MEMORY        stax_tensor.device says where data lies: 0 host memory, n CUDA device n - 1. */
#ifndef STAX_CUDA_H
#define STAX_CUDA_H

#include "stax.h"

#define STAX_CUDA_NEEDS_STAX 100 /* the version of stax.h that this file goes with: 0.1.x */
#if STAX_VERSION / 100 != STAX_CUDA_NEEDS_STAX / 100
#error "stax_cuda.h 0.1 needs stax.h 0.1: take both files from the same release"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stax_cuda stax_cuda; /* a device opened for a context */

/* STAX_OK: a driver, NVRTC and at least one device can be used. Else stax_error(ctx) says what is
   missing. */
STAXDEF stax_status stax_cuda_available(stax_context *ctx);
/* How many devices there are; 0 also when CUDA cannot be used. */
STAXDEF int stax_cuda_device_count(stax_context *ctx);
/* Opens device 0, 1, ... NULL on failure, see stax_error. */
STAXDEF stax_cuda *stax_cuda_open(stax_context *ctx, int device);
/* After the programs that run on it are freed. NULL is fine. */
STAXDEF void stax_cuda_close(stax_cuda *cuda);

#ifdef __cplusplus
}
#endif

#endif /* STAX_CUDA_H */

#ifdef STAX_IMPLEMENTATION
#ifndef STAX_CUDA_IMPLEMENTATION_DONE
#define STAX_CUDA_IMPLEMENTATION_DONE

STAXDEF stax_status stax_cuda_available(stax_context *ctx) {
    staxi_context_note(ctx, STAX_E_NOT_BUILT,
                       "CUDA is not built into this version of stax: programs run on the CPU");
    return STAX_E_NOT_BUILT;
}

STAXDEF int stax_cuda_device_count(stax_context *ctx) {
    (void)ctx;
    return 0;
}

STAXDEF stax_cuda *stax_cuda_open(stax_context *ctx, int device) {
    (void)device;
    (void)stax_cuda_available(ctx);
    return NULL;
}

STAXDEF void stax_cuda_close(stax_cuda *cuda) { (void)cuda; }

#endif /* STAX_CUDA_IMPLEMENTATION_DONE */
#endif /* STAX_IMPLEMENTATION */
