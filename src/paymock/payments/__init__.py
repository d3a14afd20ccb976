"""The resources of the API, computed from stored records by the rules. Pure functions, without I/O."""
