package breaker

import "time"

// dateEvery is how long a clock relies on the time that passes.
const dateEvery = time.Second

// clock tells the time in ms. The system's date costs twice what the time since
// then costs, so it is read once a second; a step of it is seen that late. It is
// not safe for concurrent use.
type clock struct {
	read func() time.Time // nil: the system's; any other is read each time
	date time.Time        // as it was read last
	ns   int64            // the same
}

func (c *clock) now() int64 {
	if c.read != nil {
		return c.read().UnixMilli()
	}
	since := time.Since(c.date)
	if since >= dateEvery { // or never read
		c.date = time.Now()
		c.ns, since = c.date.UnixNano(), 0
	}
	return (c.ns + int64(since)) / int64(time.Millisecond)
}
