-- What wrk sends, and what it reports. The request comes from the environment: METHOD, BENCH_PATH, BODY,
-- API_KEY, HEADERS (more of them, as lines); with UNIQUE set, each request has an Idempotency-Key of its own,
-- else all have the same.

local method, path = os.getenv("METHOD"), os.getenv("BENCH_PATH")
local headers = { ["Authorization"] = "Bearer " .. os.getenv("API_KEY") }
local body = os.getenv("BODY")
local unique = os.getenv("UNIQUE")
local number = 0

if body then headers["Content-Type"] = "application/json" end
for name, value in (os.getenv("HEADERS") or ""):gmatch("([^:\n]+): ([^\n]+)") do headers[name] = value end

request = function()
  number = number + 1
  if method == "POST" then
    headers["Idempotency-Key"] = unique and unique .. "-" .. number or "benchmark-key"
  end
  return wrk.format(method, path, headers, body)
end

done = function(summary, latency)
  io.write(string.format(
    '\n{"requests": %d, "microseconds": %d, "refused": %d, "broken": %d, "p50": %d, "p99": %d, "p999": %d}\n',
    summary.requests, summary.duration, summary.errors.status,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
