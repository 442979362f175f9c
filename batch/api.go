package batch

import (
	"time"
)

// Record is a finished line.
type Record struct {
	Line       int64
	Generation int
	Outcome    Outcome
	JSON       []byte // the output line
	// Place is where it stands among the ends of the batch's lines, from 0; -1
	// where it was not read from there.
	Place int64
}

// Backlog is an unfinished batch as the keeper sees it.
type Backlog struct {
	Description
	Now       time.Time // the clock of Redis at the read, by which Deadline passes
	Cancelled bool
	Waiting   int64 // lines not yet released
	Out       int64 // released, without a record
	// Classes counts the lines not yet released, by starting rung.
	Classes map[int]int64
	// Deferred counts the out lines that wait, by starting rung.
	Deferred map[int]int
}

// OutEntry is a released line without a record.
type OutEntry struct {
	Ref    Ref
	Rung   int // class
	Since  time.Time
	Leased bool // a live lease holds it
	Wait   Wait
}
