"""The use cases, without HTTP. Each takes a snapshot of the sandbox, computes, and applies the change. Only
`sandboxes` and `notifier` access the store.
"""
