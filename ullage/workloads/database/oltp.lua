-- What the workload `oltp` adds to sysbench's own OLTP tests: its report as JSON, whole.
-- OLTP_TEST names the test: the options are not known yet when a script is read.
require("oltp_" .. assert(os.getenv("OLTP_TEST"), "OLTP_TEST is not set"))

local OPTIONS = {
   "threads", "tables", "table_size", "range_size", "point_selects", "simple_ranges", "sum_ranges",
   "order_ranges", "distinct_ranges", "index_updates", "non_index_updates", "delete_inserts"
}
local COUNTS = {"events", "reads", "writes", "other", "errors", "reconnects"}
local SECONDS = {
   "time_total", "time_interval", "latency_min", "latency_avg", "latency_max", "latency_pct",
   "latency_sum"
}

local function fields(names, values, form)
   local found = {}
   for _, name in ipairs(names) do
      found[#found + 1] = string.format('"%s": ' .. form, name, values[name])
   end
   return "{" .. table.concat(found, ", ") .. "}"
end

-- In one piece, and at once: other threads write too.
local function say(kind, object)
   io.stdout:write(string.format('{"%s": %s}\n', kind, object))
   io.stdout:flush()
end

function sysbench.hooks.report_cumulative(stat)
   say("report", string.format(
          '{"test": "%s", "options": %s, "counts": %s, "seconds": %s}',
          os.getenv("OLTP_TEST"), fields(OPTIONS, sysbench.opt, "%d"),
          fields(COUNTS, stat, "%.0f"), fields(SECONDS, stat, "%.9f")))
end

-- sysbench's histogram ends at 100 s: transactions that take about as long are told one by one.
local LONG_S = tonumber(os.getenv("OLTP_LONG_S") or 95)
local ffi = require("ffi")
ffi.cdef("struct oltp_time {long s; long ns;}; int clock_gettime(int, struct oltp_time *);")
local CLOCK_MONOTONIC = 1
local instant, begun, long = ffi.new("struct oltp_time"), nil, {}
local oltp_event = event

local function now()
   ffi.C.clock_gettime(CLOCK_MONOTONIC, instant)
   return tonumber(instant.s) + tonumber(instant.ns) * 1e-9
end

-- From the first try: who is begun anew leaves by an error, and comes again.
function event(thread)
   begun = begun or now()
   oltp_event(thread)
   local took = now() - begun
   begun = nil
   if took >= LONG_S then
      long[#long + 1] = string.format("%.6f", took)
   end
end

-- Why transactions were begun anew: each thread has a Lua state, and a count, of its own.
local restarts = {}
local oltp_restart, oltp_done = sysbench.hooks.before_restart_event, thread_done

function sysbench.hooks.before_restart_event(problem)
   local state = problem.sql_state
   restarts[state] = (restarts[state] or 0) + 1
   oltp_restart(problem)
end

function thread_done()
   oltp_done()
   if #long > 0 then
      say("long", "[" .. table.concat(long, ", ") .. "]")
   end
   for state, count in pairs(restarts) do
      say("restarts", string.format('{"state": "%s", "count": %d}', state, count))
   end
end
