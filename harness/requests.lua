-- Requests for wrk, and its report. Arguments: a file of templates, a file of columns, and a seed.
--
-- A request is a random template with its fields filled in: <hex> and <digits> with four random digits each,
-- <NAME> with the column of that name, in one random row for all columns. NUL ends each template; a line of
-- the other file is the name of a column and its values, separated by tabs.

local concat, random = table.concat, math.random
local templates, rows = {}, 1

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

local function numerals(pattern, count)
  local words = {}
  for number = 1, count do words[number] = pattern:format(number - 1) end
  return words
end

function init(arguments)
  math.randomseed(tonumber(arguments[3]))
  local random_values, columns = { hex = numerals("%04x", 0x10000), digits = numerals("%04d", 10000) }, {}
  for name, row in read(arguments[2]):gmatch("([^\t]+)([^\n]+)\n") do
    local values = {}
    for value in row:gmatch("[^\t]+") do values[#values + 1] = value end
    columns[name], rows = values, #values
  end
  for text in read(arguments[1]):gmatch("(%Z+)%z") do
    local template = { parts = {}, random_fields = {}, column_fields = {} }
    local parts = template.parts
    for literal, name in text:gmatch("([^<]*)<?([%w_]*)>?") do
      parts[#parts + 1] = literal
      if name ~= "" then
        local fields = columns[name] and template.column_fields or template.random_fields
        local values = columns[name] or random_values[name]
        parts[#parts + 1] = "" -- filled in for each request
        fields[#fields + 1] = { position = #parts, values = values, count = #values }
      end
    end
    templates[#templates + 1] = template
  end
end

function request()
  local template, row = templates[random(#templates)], random(rows)
  local parts, random_fields, column_fields = template.parts, template.random_fields, template.column_fields
  for index = 1, #random_fields do
    local field = random_fields[index]
    parts[field.position] = field.values[random(field.count)]
  end
  for index = 1, #column_fields do
    local field = column_fields[index]
    parts[field.position] = field.values[row]
  end
  return concat(parts)
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.6f, "refused": %d, "broken": %d, "p50": %.3f, "p99": %.3f, "p999": %.3f}\n',
    summary.requests, summary.duration / 1e6, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency:percentile(99.9) / 1e3))
end
