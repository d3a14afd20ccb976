"""The resources of the API, computed from stored records by the rules. Pure functions of the record and of
the time, without I/O.
"""
