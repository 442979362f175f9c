-- Ends a line.
--
-- KEYS[1]  the records
-- KEYS[2]  the counters
-- ARGV[1]  the line

local records, counters = KEYS[1], KEYS[2]
-- ARGV[2] is gone
local line = ARGV[1]
return cjson.encode({records, counters, line})
