"""Where ``find_package(Torch)`` finds the stand-in's CMake package."""

from pathlib import Path

cmake_prefix_path = str(Path(__file__).resolve().parent.parent / "share" / "cmake")
