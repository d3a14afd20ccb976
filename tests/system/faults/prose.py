"""The text of docs/faults.md around its figures."""

INTRODUCTION = """
# Faults

What was broken, how often, and what was seen; other promises are in [reliability](reliability.md). This page
is written by the run that it tells of:

```sh
{command}
```

Servers, engines and clients shared one machine with {processors} processors, Python {python}, SQLite
{sqlite} and Redis {redis}. All requests went over HTTP to `paymock serve`.
`tests/system/test_faults.py` does the same in short, with every change of the code.

A client that gets no reply, or 503, does not know whether its request was carried out: either may be.
Everything else is certain. A violation is

- a payment that was acknowledged and cannot be read, is not in the list, or is made anew by a retry;
- two replies to one idempotency key that differ by a byte, or two bodies that were both accepted;
- a key with two payments in the list, or one of which every retry fails;
- a payment that goes back: whoever asks after somebody else was answered sees the same state or a later one;
- a deposit with an idempotency key that counts twice, or does not count after its reply;
- a reply that is neither a success nor what the API says of the case, and a 503 without `Retry-After`.

{verdict}
"""

KILLS = """
## `kill -9` under load

16 clients create payments. At a random moment all processes of the server are killed, or the engine, or
both, and started again. What was acknowledged is then repeated and read, and once more after the last
round; what is unknown is retried by {retries} clients at once. Redis has an append-only file that is synced
before each reply.

{table}

*Stored unseen* are payments that exist though no client was told: their first retry was answered as a
replay. *Back after* is the longest time from the engine's first answer to the first new payment; the server
is not restarted. The last row is an engine that keeps nothing on disk, of which the server warns at its
start. It is here since a check is worth something only if it can fail.
"""

CUTS = """
## Cut off from Redis

A proxy between Redis and a server with 2 workers breaks the connection while 8 clients create payments,
each again until it is acknowledged. While nothing gets through, every reply must be 503 within 2 seconds,
those of `/readyz`, too. Where only the replies of commits are lost, creations are stored and must get 503
all the same.

{table}

*Back after* is the time from the end of the cut to the first success, in the median and at most. The server
is not restarted.
"""

NODES = """
## A node of a cluster killed

A server with 2 workers on three nodes, two sandboxes on each node, a client in each sandbox. One node after
another is killed and started again, when all count as well. The sandboxes of the others must see no
refusal, and nothing that takes longer than a second; those of the dead node must get 503 within 2 seconds;
`/readyz` must stay 200.

{table}

*Back after* is counted from the moment at which the node says that it serves again.
"""

CROWDS = """
## {clients} identical creations at once

{clients} open connections to two servers with 2 workers each. The same creation is sent on all of them
before any reply is read. Every reply must be 201 with the same bytes, and exactly one without
`Idempotent-Replayed`.

{table}
"""

MIXTURE = """
## Anything at any time

10 clients of two servers with 2 workers each do what comes to their mind: create, with few keys and two
bodies for each, read, deposit, advance a payment or the whole sandbox, whose clock runs five times as fast
as real time. What one server refuses, they ask of the other. Meanwhile one fault follows another. At the
end everything is retried, read and listed.

{table}

How often each fault came:

{faults}
"""

LATENESS = """
## Commits that come late

A deposit, and a clock that is slowed down, take effect 50 ms after the request, so that all servers know of
it in time. Here each commit of one server reaches Redis {delay} ms late, while payment and clock are read
through another server.

{table}
"""

LIMIT = """
This is a limit: where a commit takes longer than 50 ms, others may have been shown what came instead, such
as the expiry of a payment that turns out to have been paid in time.
"""
