"""What the Redis store does within one atomic step, as scripts that run in the engine.

All keys of a sandbox have its name as their hash tag, so they are in one slot, on one node. A script refuses
before it stores, and the first command that it stores with is one that an engine without room refuses: so
nothing is half-written.
"""

import hashlib

from hiredis import pack_command

from paymock.stores.base import STATE, note_key

CHANNEL = "paymock:changes"
"""Where the name of each sandbox is told that changes."""

_CONSTANTS = f"""
local STATE, NOTE, CHANNEL = '{STATE}', '{note_key("")}', '{CHANNEL}'
"""

_FUNCTIONS = """
-- values can be empty, so a mark tells one that is there from one that is not
local function marked(value)
    return value and '+' .. value or '-'
end

-- a list joins the names of those that a reset forgets
local function push(names, list, ...)
    local length = redis.call('RPUSH', list, ...)
    if length == select('#', ...) then redis.call('SADD', names, list) end
    return length
end

-- all keys of a sandbox live equally long; a key that has gone to another node meanwhile does not count
local function extend(seconds, names, ...)
    for _, key in ipairs(redis.pcall('SMEMBERS', names)) do redis.pcall('EXPIRE', key, seconds) end
    for _, key in ipairs({names, ...}) do redis.pcall('EXPIRE', key, seconds) end
end
"""


def pack(*arguments: str | bytes | int) -> bytes:
    """A command as it is sent."""
    packed: bytes = pack_command(arguments)  # type: ignore[arg-type]  # a tuple of any length will do
    return packed


def marked(value: bytes | None) -> bytes:
    """A value that may be missing, as scripts take it."""
    return b"-" if value is None else b"+" + value


class Script:
    """A script that every connection makes known to its engine when it opens."""

    def __init__(self, text: str) -> None:
        text = _CONSTANTS + _FUNCTIONS + text
        self.load = pack("SCRIPT", "LOAD", text)
        self._name = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    def call(self, keys: tuple[str, ...], *arguments: str | bytes | int) -> bytes:
        """The command that runs the script."""
        return pack("EVALSHA", self._name, len(keys), *keys, *arguments)


# The keys that only a retention needs come last, and are left out without one.

ADD = Script("""
local values, list, names, counters = unpack(KEYS)
local key, value, given, after, limit, kind, sandbox, retention = unpack(ARGV)
local found = redis.call('HMGET', values, STATE, key)
if marked(found[1]) ~= given or found[2] then return found end
local now = redis.call('TIME')[1]
if counters then
    for _ = 1, 2 do
        local oldest = redis.call('LINDEX', list, 0)
        local seconds, name = string.match(oldest or '', '^(%d+):(.*)$')
        if not seconds or tonumber(seconds) > now - retention then break end
        redis.call('LPOP', list)
        redis.call('HDEL', values, name, name .. NOTE)
        redis.call('HINCRBY', counters, 'base:' .. kind, 1)
    end
end
if limit ~= '' and redis.call('LLEN', list) >= tonumber(limit) then return 0 end
-- told first: who may not tell it does not store it either
redis.call('PUBLISH', CHANNEL, sandbox)
if after == '-' then
    redis.call('HSET', values, key, value)
else
    redis.call('HSET', values, key, value, STATE, string.sub(after, 2))
end
push(names, list, now .. ':' .. key)
if counters then extend(retention, names, values, counters) end
return 1
""")
"""1: added; 0: the limit is reached; otherwise what was there, the sandbox's own record first."""

REPLACE = Script("""
local values, names, counters = unpack(KEYS)
local key, old, new, given, sandbox, retention = unpack(ARGV)
local found = redis.call('HMGET', values, STATE, key)
if marked(found[1]) ~= given or marked(found[2]) ~= old then return 0 end
redis.call('PUBLISH', CHANNEL, sandbox)
redis.call('HSET', values, key, new)
-- what nothing was ever added to does not end: it may hold what all sandboxes go by
if counters and redis.call('TTL', values) >= 0 then extend(retention, names, values, counters) end
return 1
""")
"""Whether it did."""

RESET = Script("""
local values, names, counters = unpack(KEYS)
local new, given, sandbox, retention = unpack(ARGV)
if marked(redis.call('HGET', values, STATE)) ~= given then return 0 end
local expires = redis.call('TTL', values) >= 0
redis.call('PUBLISH', CHANNEL, sandbox)
redis.call('UNLINK', values, names, counters, unpack(redis.call('SMEMBERS', names)))
redis.call('HSET', values, STATE, new)
if retention ~= '' and expires then redis.call('EXPIRE', values, retention) end
return 1
""")
"""Whether it did."""

PAGE = Script("""
local values, list, counters = unpack(KEYS)
local kind, limit, before = unpack(ARGV)
local base = counters and tonumber(redis.call('HGET', counters, 'base:' .. kind)) or 0
local stop = redis.call('LLEN', list)
if before ~= '' then stop = math.min(stop, before - base) end
local start = math.max(0, stop - limit)
local found = {base + stop - 1}
if start < stop then
    local entries = redis.call('LRANGE', list, start, stop - 1)
    for at = #entries, 1, -1 do
        found[#found + 1] = redis.call('HGET', values, string.match(entries[at], ':(.*)$'))
    end
end
return found
""")
"""The position of the newest value, and the values, newest first."""

APPEND = Script("""
local log, names = unpack(KEYS)
local keep, retention = unpack(ARGV)
if push(names, log, unpack(ARGV, 3)) > tonumber(keep) then redis.call('LTRIM', log, -keep, -1) end
if retention ~= '' then
    redis.call('EXPIRE', log, retention)
    redis.call('EXPIRE', names, retention)
end
""")

SCRIPTS = (ADD, REPLACE, RESET, PAGE, APPEND)
