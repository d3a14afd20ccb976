"""The use cases, without HTTP. Each takes a snapshot of the sandbox, computes, and applies the change. None
accesses the store but through `sandbox`.
"""
