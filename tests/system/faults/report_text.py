"""The text of docs/fault-tests.md around its figures."""

INTRODUCTION = """
# Fault tests

```sh
{command}
```

This program writes this page: what was broken, how often, and what was observed. Servers, engines and clients
shared one machine with {processors} processors, Python {python}, SQLite {sqlite} and Redis {redis}. All
requests went over HTTP to `paymock serve`. `tests/system/test_faults.py` is the short form.

A request without a reply, or with 503, may or may not have been processed. Everything else is certain. A
violation is

- an acknowledged payment that cannot be read, is not listed, or is created again by a retry;
- different replies, or two accepted bodies, for one idempotency key;
- a key with two payments, or with which every retry fails;
- a payment that goes back to an earlier state;
- a deposit with an idempotency key that counts twice, or not at all after its reply;
- an undocumented reply, or a 503 without `Retry-After`.

{verdict}
"""

KILLS = """
## `kill -9` under load

16 clients create payments. At a random moment the server, the engine or both are killed and restarted.
Acknowledged payments are then repeated and read; unknown ones are retried by {retries} clients at once. Redis
uses `appendfsync always`.

{table}

*Stored unseen*: payments that exist although no client was told. *Back after*: the longest time from the
engine's first answer to the first new payment. The last row is an engine without persistence, which proves
that the check can fail.
"""

CUTS = """
## Connection to Redis cut

A proxy between Redis and a server with 2 workers breaks the connection while 8 clients create payments.
Meanwhile every reply must be 503 within 2 seconds, also when only replies of commits are lost.

{table}

*Back after*: from the end of the cut to the first success, median and maximum.
"""

NODES = """
## Cluster node killed

A server with 2 workers on three nodes, two sandboxes on each. One node after another is killed and restarted.
Other sandboxes must see no refusal and no reply slower than a second; those of the dead node must get 503
within 2 seconds; `/readyz` must stay 200.

{table}

*Back after*: from the moment at which the node serves again.
"""

CONCURRENCY = """
## {clients} identical creations at once

{clients} connections to two servers with 2 workers each send the same creation before any reply is read.
Every reply must be 201 with the same bytes, and exactly one without `Idempotent-Replayed`.

{table}
"""

RANDOM = """
## Random requests and faults

10 clients of two servers with 2 workers each create with few keys and two bodies, read, deposit, and advance
payments or the sandbox, whose clock runs at five times real time. What one server refuses, they send to the
other. At the end everything is retried, read and listed.

{table}

Faults:

{faults}
"""

LATE_COMMITS = """
## Late commits

A deposit and a slower clock apply 50 ms after the request. Here each commit of one server reaches Redis
{delay} ms late, and another server reads.

{table}
"""

LIMIT = """
This is a known limit: see [decisions](decisions.md#time-and-control).
"""
