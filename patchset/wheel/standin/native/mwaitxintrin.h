/* vLLM's `spinloop` includes this header of the compiler by itself, which GCC lets pass and Clang refuses ("include
 * <x86intrin.h> instead"). So that is done, outside the extern "C" that vLLM includes it in.
 */
#ifndef PATCHSET_MWAITX
#define PATCHSET_MWAITX
extern "C++" {
#include <x86intrin.h>
}
#endif
#include_next <mwaitxintrin.h>
