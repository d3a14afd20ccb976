"""The use cases, without HTTP. Each takes a snapshot of what is stored, computes, and applies the change;
`sandboxes` is the one way to the store.
"""
