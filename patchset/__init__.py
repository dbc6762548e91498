"""A pinned vLLM, an ordered series of patches, and a runtime for the Arc Pro B70 that you can prove."""

__version__ = "0.1.0"
