"""The Redis store: Redis, Valkey or a Redis Cluster, which several machines can share."""
