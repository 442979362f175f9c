package batch

import (
	"context"
	"time"
)

// Store is the batches in Redis, as its users see it. *Redis implements it.
// It is written out here as the contract between this package, tasks, the
// commands and the dashboard while they are built side by side.
type Store interface {
	// Submit writes the lines of src to the backlog and makes the batch visible
	// to the keeper once all are written. Submitting the same ID and content
	// again adds what is missing. progress is called with the lines written.
	Submit(ctx context.Context, d Description, src Source, progress func(lines int64)) error

	// Begin takes a lease on a line, or says why not.
	Begin(ctx context.Context, ref Ref, token string) (Begun, error)
	// Checkpoint writes the progress before a further call and books its cost.
	// It returns ErrFenced or ErrCancelled where no further call may start.
	Checkpoint(ctx context.Context, l Lease, p Progress) error
	// Suspend frees the lease and puts the line back to waiting.
	Suspend(ctx context.Context, l Lease, p Progress, w Wait) error
	// Finish writes the record, once. It returns ErrFenced where another was
	// first or this attempt may no longer end the line; its calls are booked as
	// waste then. It is idempotent by the lease's token.
	Finish(ctx context.Context, l Lease, p Progress, o Outcome, r Result) error
	// Renew renews leases; the returned ones are lost: finished or taken.
	Renew(ctx context.Context, ls []Lease) (lost []Lease, err error)

	// Backlogs returns what the keeper needs to know of every unfinished batch.
	Backlogs(ctx context.Context) ([]Backlog, error)
	// Release moves up to n lines from the cursor to out, at most room[c] of
	// class c, and returns them. epoch is the keeper's; a smaller one than the
	// last seen is ErrFenced.
	Release(ctx context.Context, id string, epoch int64, n int, room map[int]int) ([]Ref, error)
	// Out returns the entries of released lines that have no record yet.
	Out(ctx context.Context, id string) ([]OutEntry, error)
	// Touch restarts the age of an out entry after its task was enqueued again.
	Touch(ctx context.Context, refs []Ref) error
	// End ends up to n lines that no live lease holds as cancelled or expired,
	// with a record each, and returns how many.
	End(ctx context.Context, id string, epoch int64, o Outcome, n int) (int, error)

	// Cancel marks a batch as cancelled; its lines end by End or their attempts.
	Cancel(ctx context.Context, id string) error
	// Status returns one batch; List all, newest first.
	Status(ctx context.Context, id string) (Status, error)
	List(ctx context.Context) ([]Status, error)
	// Results calls yield with each record from the given offset in finishing
	// order, as output lines without a newline, and returns the next offset.
	Results(ctx context.Context, id string, offset int64, yield func(Record) error) (next int64, err error)
	// Request returns the line as it was submitted.
	Request(ctx context.Context, ref Ref) (Line, error)
}

// Source yields the lines of a batch in file order.
type Source interface {
	// Next returns the next line with its raw bytes, or io.EOF.
	Next() (Line, []byte, error)
}

// Record is a finished line.
type Record struct {
	Line    int64
	Outcome Outcome
	JSON    []byte // the output line
}

// Backlog is an unfinished batch as the keeper sees it.
type Backlog struct {
	Description
	Cancelled bool
	Waiting   int64 // lines not yet released
	Out       int64 // released, without a record
	// Deferred counts the out lines that wait, by starting rung.
	Deferred map[int]int
}

// OutEntry is a released line without a record.
type OutEntry struct {
	Ref     Ref
	Rung    int // class
	Since   time.Time
	Leased  bool // a live lease holds it
	Wait   Wait
}
