-- What wrk found, as one JSON object: its own text rounds, and has no more than four quantiles.
function done(summary, latency, requests)
  local errors, points = summary.errors, {}
  for _, percent in ipairs({50, 90, 99, 99.9, 99.99, 99.999}) do
    points[#points + 1] = string.format("[%s,%d]", percent, latency:percentile(percent))
  end
  print(string.format(
    '{"duration_us":%d,"requests":%d,"bytes":%d,' ..
    '"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d,' ..
    '"min_us":%d,"mean_us":%.3f,"max_us":%d,"points":[%s]}',
    summary.duration, summary.requests, summary.bytes,
    errors.connect, errors.read, errors.write, errors.status, errors.timeout,
    latency.min, latency.mean, latency.max, table.concat(points, ",")))
end
