"""What the Redis store does within one atomic step, as scripts that run in the engine.

All keys of a sandbox have its name as their hash tag, so they are in one slot, on one node. A script refuses
before it stores, and the first command that it stores with is one that an engine without room refuses: so
nothing is half-written.
"""

import hashlib

from hiredis import pack_command

from paymock.stores.base import STATE, Change, companion_key

CHANNEL = "paymock:changes"
"""Where the name of each sandbox is told that changes, after MINOR when something was merely added."""

MINOR = "+"

_CONSTANTS = f"""
local STATE, NOTE, CHANNEL, MINOR = '{STATE}', '{companion_key("")}', '{CHANNEL}', '{MINOR}'
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

-- for good without a retention, and otherwise no shorter than another process has said; false when the key
-- has gone to another node meanwhile
local function keep(key, retention)
    local reply = redis.pcall(retention == '' and 'PERSIST' or 'TTL', key)
    if type(reply) ~= 'number' then return false end
    if retention ~= '' and reply < tonumber(retention) then redis.pcall('EXPIRE', key, retention) end
    return true
end

-- all keys of a sandbox live equally long; they are not all declared, as one that is missing would count as
-- gone while the sandbox goes to another node
local function keep_all(values, retention)
    if retention ~= '' then retention = math.max(retention, redis.call('TTL', values)) end
    local sandbox = string.sub(values, 1, -1 - string.len('values'))
    local keys = redis.pcall('SMEMBERS', sandbox .. 'names')
    keys[#keys + 1] = sandbox .. 'names'
    keys[#keys + 1] = sandbox .. 'counters'
    for _, key in ipairs(keys) do
        -- the values, whose end tells that there is something to do, wait until all keys can be reached
        if not keep(key, retention) and retention == '' then return end
    end
    keep(values, retention)
end
"""


def pack(*arguments: str | bytes | int) -> bytes:
    """A command as it is sent."""
    packed: bytes = pack_command(arguments)  # type: ignore[arg-type]  # a tuple of any length will do
    return packed


def marked(value: bytes | None) -> bytes:
    """A value that may be missing, as scripts take it."""
    return b"-" if value is None else b"+" + value


def told(message: str | None) -> Change:
    """The change that a message of CHANNEL tells of."""
    if message is None:
        return Change(None)
    return Change(message.removeprefix(MINOR), minor=message.startswith(MINOR))


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
redis.call('PUBLISH', CHANNEL, after == '-' and MINOR .. sandbox or sandbox)
if after == '-' then
    redis.call('HSET', values, key, value)
else
    redis.call('HSET', values, key, value, STATE, string.sub(after, 2))
end
local length = push(names, list, now .. ':' .. key)
if counters or redis.call('TTL', values) >= 0 then
    keep_all(values, retention)
elseif length == 1 then
    keep(names, '')  -- a log may have made them, and then have been all that there was
end
return 1
""")
"""1: added; 0: the limit is reached; otherwise what was there, the sandbox's own record first."""

REPLACE = Script("""
local values = KEYS[1]
local key, old, new, given, sandbox, retention = unpack(ARGV)
local found = redis.call('HMGET', values, STATE, key)
if marked(found[1]) ~= given or marked(found[2]) ~= old then return 0 end
redis.call('PUBLISH', CHANNEL, sandbox)
redis.call('HSET', values, key, new)
-- what nothing was ever added to does not end: it may hold what all sandboxes go by
if redis.call('TTL', values) >= 0 then keep_all(values, retention) end
return 1
""")
"""Whether it did."""

RESET = Script("""
local values, names, counters = unpack(KEYS)
local new, given, sandbox, retention = unpack(ARGV)
if marked(redis.call('HGET', values, STATE)) ~= given then return 0 end
local left = redis.call('TTL', values)
redis.call('PUBLISH', CHANNEL, sandbox)
redis.call('UNLINK', values, names, counters, unpack(redis.call('SMEMBERS', names)))
redis.call('HSET', values, STATE, new)
if retention ~= '' and left >= 0 then redis.call('EXPIRE', values, math.max(retention, left)) end
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
local most, sandbox, retention = unpack(ARGV)
redis.call('PUBLISH', CHANNEL, MINOR .. sandbox)
if push(names, log, unpack(ARGV, 4)) > tonumber(most) then redis.call('LTRIM', log, -most, -1) end
if retention ~= '' or redis.call('TTL', log) >= 0 then
    keep(log, retention)
    keep(names, retention)
end
""")

CLEAR = Script("""
redis.call('PUBLISH', CHANNEL, MINOR .. ARGV[1])
redis.call('UNLINK', KEYS[1])
""")

COUNT = Script("""
local counters = KEYS[1]
local key, retention = unpack(ARGV)
local number = redis.call('HINCRBY', counters, 'count:' .. key, 1)
if retention ~= '' or redis.call('TTL', counters) >= 0 then keep(counters, retention) end
return number
""")

SCRIPTS = (ADD, REPLACE, RESET, PAGE, APPEND, CLEAR, COUNT)
