# The compiler of the native parts (see compiler.py), and that nothing else of this machine has a say.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_CXX_COMPILER $ENV{PATCHSET_CXX})
# Else trials ask for debug information, and zig compiles its C++ library once more for that.
set(CMAKE_TRY_COMPILE_CONFIGURATION Release)
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH FALSE)
list(PREPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")
# Names from __FILE__ would otherwise carry the path of the build.
add_compile_options("-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=")
# Not LINKER: and not -Wl, which part a path at its commas.
add_link_options("SHELL:-Xlinker \"--version-script=${CMAKE_CURRENT_LIST_DIR}/exports.map\"")
