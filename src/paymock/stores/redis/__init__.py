"""The Redis store: Redis or Valkey, which several machines can share, with a failover by Sentinel."""
