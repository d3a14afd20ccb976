"""What an application has seen of the service, and what is wrong with its requests: pure functions over the
journal and the payments of a sandbox.
"""
