-- Ends a line.
--
-- KEYS[1]  the records

local records, counters = KEYS[1], KEYS[2]
-- ARGV[1] is the line
local line = ARGV[1]
return cmsgpack.pack({records, counters, line})
