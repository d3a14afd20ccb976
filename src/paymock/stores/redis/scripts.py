"""The Lua scripts of the Redis store: each is one atomic step.

A script checks its conditions before it writes, and its first write is a command that an engine without
memory refuses, so that no change is partially stored.
"""

import hashlib

from paymock.stores.base import MAX_COUNTERS, SANDBOX_RECORD, companion_key

CHANNEL = "paymock:changes"
"""Pub/sub channel for the name of each sandbox that changes, prefixed with MINOR if the change is minor."""

MINOR = "+"

_CONSTANTS = f"""
local SANDBOX_RECORD, COMPANION = '{SANDBOX_RECORD}', '{companion_key("")}'
local CHANNEL, MINOR = '{CHANNEL}', '{MINOR}'
local CHANGED, REVISION = 'paymock:changed', 'revision'
local EMPTY_SECONDS, MAX_COUNTERS = 86400, {MAX_COUNTERS}
"""

_FUNCTIONS = """
-- a prefix distinguishes an empty value from a missing one
local function encode(value)
    return value and '+' .. value or '-'
end

-- a new list is added to the names, which a reset deletes
local function push(names, list, ...)
    local length = redis.call('RPUSH', list, ...)
    if length == select('#', ...) then redis.call('SADD', names, list) end
    return length
end

-- deletes at most two of what is older than the retention by the clock of the engine and by `steady`: that of
-- the server, 0 while it may be wrong
local function delete_oldest(values, list, counters, kind, retention, steady)
    for _ = 1, 2 do
        local oldest = redis.call('LINDEX', list, 0)
        local seconds, name = string.match(oldest or '', '^(%d+):(.*)$')
        if not seconds or seconds + retention > math.min(redis.call('TIME')[1], steady) then break end
        redis.call('LPOP', list)
        redis.call('HDEL', values, name, name .. COMPANION)
        redis.call('HINCRBY', counters, 'base:' .. kind, 1)
    end
end

-- logs and counters expire only without values, after EMPTY_SECONDS
local function retain_some(sandbox, ...)
    local has_values = redis.call('EXISTS', sandbox .. 'values') == 1
    for _, key in ipairs({...}) do
        if has_values then redis.call('PERSIST', key) else redis.call('EXPIRE', key, EMPTY_SECONDS) end
    end
end

local function retain_all(values)
    local sandbox = string.sub(values, 1, -1 - string.len('values'))
    local keys = redis.call('SMEMBERS', sandbox .. 'names')
    for _, name in ipairs({'names', 'counters', 'values'}) do keys[#keys + 1] = sandbox .. name end
    for _, key in ipairs(keys) do redis.call('PERSIST', key) end
end

-- with a retention, notes the time of a change, and deletes at most two sandboxes without any since then: the
-- expiry of keys would follow the clock of the engine alone
local function note_change(sandbox, retention, steady)
    if retention == '' then return redis.call('ZREM', CHANGED, sandbox) end
    local now = redis.call('TIME')[1]
    redis.call('ZADD', CHANGED, now, sandbox)
    local due = math.min(now, steady) - retention
    for _, idle in ipairs(redis.call('ZRANGEBYSCORE', CHANGED, 0, due, 'LIMIT', 0, 2)) do
        local prefix = 'paymock:{' .. idle .. '}:'
        local names = redis.call('SMEMBERS', prefix .. 'names')
        redis.call('UNLINK', prefix .. 'values', prefix .. 'names', prefix .. 'counters', unpack(names))
        redis.call('ZREM', CHANGED, idle)
    end
end
"""


def encode(value: bytes | None) -> bytes:
    return b"-" if value is None else b"+" + value


class Script:
    """A Lua script, which an engine keeps by its digest once it has had its text."""

    def __init__(self, text: str) -> None:
        self.text = _CONSTANTS + _FUNCTIONS + text
        self.digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


ADD = Script("""
local values, list, names, counters = unpack(KEYS)
local key, value, expected_state, new_state, limit, kind, sandbox, retention, steady = unpack(ARGV)
local current = redis.call('HMGET', values, SANDBOX_RECORD, key)
if encode(current[1]) ~= expected_state or current[2] then return current end
if retention ~= '' then delete_oldest(values, list, counters, kind, retention, steady) end
if limit ~= '' and redis.call('LLEN', list) >= tonumber(limit) then return 0 end
-- published first, so that a user without permission to publish stores nothing
redis.call('PUBLISH', CHANNEL, new_state == '-' and MINOR .. sandbox or sandbox)
if new_state == '-' then
    redis.call('HSET', values, key, value)
else
    redis.call('HSET', values, key, value, SANDBOX_RECORD, string.sub(new_state, 2))
end
redis.call('HINCRBY', values, REVISION, 1)
local length = push(names, list, redis.call('TIME')[1] .. ':' .. key)
-- the logs and counters of a sandbox that had no values have an expiry
if length == 1 or redis.call('TTL', values) >= 0 then retain_all(values) end
note_change(sandbox, retention, steady)
return 1
""")
"""Returns 1: added, 0: limit reached, or the current values: the sandbox record and that of the key."""

REPLACE = Script("""
local values, list, names, counters = unpack(KEYS)
local key, old, new, expected_state, sandbox, retention, steady, if_empty = unpack(ARGV)
local added, added_value, kind = unpack(ARGV, 9)
local current = redis.call('HMGET', values, SANDBOX_RECORD, key, added or SANDBOX_RECORD)
if encode(current[1]) ~= expected_state or encode(current[2]) ~= old then return 0 end
if added and current[3] then return 0 end
if if_empty == '1' then
    local own = redis.call('HEXISTS', values, SANDBOX_RECORD) + redis.call('HEXISTS', values, REVISION)
    if redis.call('HLEN', values) > own then return -1 end
end
redis.call('PUBLISH', CHANNEL, sandbox)
if added then
    redis.call('HSET', values, key, new, added, added_value)
    if retention ~= '' then delete_oldest(values, list, counters, kind, retention, steady) end
    push(names, list, redis.call('TIME')[1] .. ':' .. added)
else
    redis.call('HSET', values, key, new)
end
redis.call('HINCRBY', values, REVISION, 1)
if redis.call('TTL', values) >= 0 then retain_all(values) end
note_change(sandbox, retention, steady)
return 1
""")
"""Returns 1 if it was replaced, otherwise 0; -1 if it was to be empty and is not."""

RESET = Script("""
local values, names, counters = unpack(KEYS)
local new, expected_state, sandbox, retention, steady = unpack(ARGV)
if encode(redis.call('HGET', values, SANDBOX_RECORD)) ~= expected_state then return 0 end
redis.call('PUBLISH', CHANNEL, sandbox)
redis.call('UNLINK', values, names, counters, unpack(redis.call('SMEMBERS', names)))
redis.call('HSET', values, SANDBOX_RECORD, new)
note_change(sandbox, retention, steady)
return 1
""")
"""Returns 1 if it was reset, otherwise 0."""

PAGE = Script("""
local values, list, counters = unpack(KEYS)
local kind, limit, before = unpack(ARGV)
local base = tonumber(redis.call('HGET', counters, 'base:' .. kind) or 0)
local stop = redis.call('LLEN', list)
if before ~= '' then stop = math.min(stop, before - base) end
local start = math.max(0, stop - limit)
local page = {base + stop - 1}
if start < stop then
    local entries = redis.call('LRANGE', list, start, stop - 1)
    for index = #entries, 1, -1 do
        page[#page + 1] = redis.call('HGET', values, string.match(entries[index], ':(.*)$'))
    end
end
return page
""")
"""Returns the position of the newest value, and the values, newest first."""

APPEND = Script("""
local retention, steady, place = ARGV[1], ARGV[2], 3
for index = 1, #KEYS, 2 do
    local log, names, sandbox, keep, count = KEYS[index], KEYS[index + 1], unpack(ARGV, place, place + 2)
    place = place + 3 + count
    redis.call('PUBLISH', CHANNEL, MINOR .. sandbox)
    local length = push(names, log, unpack(ARGV, place - count, place - 1))
    if length > tonumber(keep) then redis.call('LTRIM', log, -keep, -1) end
    -- a log without an expiry has, or had, values beside it
    if length == tonumber(count) or redis.call('TTL', log) >= 0 then
        retain_some(string.sub(names, 1, -1 - string.len('names')), log, names)
    end
    note_change(sandbox, retention, steady)
end
""")

REVISION = Script("""
local values, log = unpack(KEYS)
local state, changes = unpack(redis.call('HMGET', values, SANDBOX_RECORD, REVISION))
return {state, changes, redis.call('LINDEX', log, -1)}
""")
"""Returns the sandbox record, the number of changes of the values, and the newest entry of a log."""

CLEAR_LOG = Script("""
redis.call('PUBLISH', CHANNEL, MINOR .. ARGV[1])
redis.call('UNLINK', KEYS[1])
""")

INCREMENT = Script("""
local counters, key = KEYS[1], ARGV[1]
local number = redis.call('HINCRBY', counters, 'count:' .. key, 1)
while number == 1 and redis.call('HLEN', counters) > MAX_COUNTERS do
    local other = redis.call('HRANDFIELD', counters)
    if other ~= 'count:' .. key and string.match(other, '^count:') then
        redis.call('HDEL', counters, other)
    end
end
retain_some(string.sub(counters, 1, -1 - string.len('counters')), counters)
return number
""")
