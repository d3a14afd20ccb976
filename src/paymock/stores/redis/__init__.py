"""The store in Redis, Valkey or a Redis Cluster, which several machines can share."""
