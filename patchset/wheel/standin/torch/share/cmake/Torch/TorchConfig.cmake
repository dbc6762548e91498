# vLLM links every extension to the target `torch`, also those that only use Python.h and libc. An empty target satisfies
# that without libraries, include folders, definitions or a run path, so the extension loads beside any torch.
if(NOT TARGET torch)
  add_library(torch INTERFACE IMPORTED)
endif()
set(TORCH_FOUND TRUE)
set(TORCH_LIBRARIES torch)
set(TORCH_INCLUDE_DIRS "")
set(TORCH_CXX_FLAGS "")
