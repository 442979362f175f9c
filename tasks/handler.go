package tasks

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"

	"nightshift/batch"
	"nightshift/internal/hours"
	"nightshift/ladder"
)

// Lines is what attempts need of package batch.
type Lines interface {
	Begin(ctx context.Context, ref batch.Ref, token string) (batch.Begun, error)
	Checkpoint(ctx context.Context, l batch.Lease, p batch.Progress) error
	Suspend(ctx context.Context, l batch.Lease, p batch.Progress, w batch.Wait, riders ...batch.Rider) error
	Finish(ctx context.Context, l batch.Lease, p batch.Progress, o batch.Outcome, r batch.Result, riders ...batch.Rider) error
	Renew(ctx context.Context, ls []batch.Lease) (lost []batch.Lease, err error)
}

// Attempter runs one attempt; *ladder.Ladder is one.
type Attempter interface {
	Attempt(ctx context.Context, r ladder.Request, j ladder.Journal) ladder.Outcome
}

// Observer is told what the metrics count. Its methods must not block.
type Observer interface {
	Deferred(queue, reason string)
	LinesEnded(queue string, o batch.Outcome, n int)
	// Answered tells who answered lines that succeeded; LinesEnded tells of them too.
	Answered(queue string, by By, n int)
	// Notified tells of a try at telling of a batch's end.
	Notified(what Notification)
}

// By is who answered lines, and how.
type By struct {
	Model            string // its key, or ladder.TextModel
	Degraded, Cached bool
}

// Queue is one service class as a worker serves it.
type Queue struct {
	Name    string
	Slots   int // attempts at a time in this process
	Retries int
	Ladder  Attempter
	// MaxCooldown stands for the end of a state that has no time of its own.
	MaxCooldown time.Duration
}

// handler runs the attempts of one queue. It holds its own slots, because asynq
// frees its slot while a handler that outlived its queue lease still runs.
type handler struct {
	queue  Queue
	hours  hours.Hours
	lines  Lines
	leases *leases
	pace   *pace
	slots  chan struct{}
	stop   <-chan struct{} // closed: no further call starts
	calls  context.Context // ends when calls in flight must end
	giveUp <-chan struct{} // closed: the process ends, stop retrying writes
	gate   gate            // counts the attempts under way
	obs    Observer
	sink   ladder.Sink // of deferrals; nil: nobody is told
	tracer Tracer      // nil: nobody follows
	log    *slog.Logger
	now    func() time.Time
	random func() float64 // uniform over [0,1)
}

// ProcessTask implements asynq.Handler. The context is asynq's and is not used
// for the attempt: its lease must never end a paid call.
func (h *handler) ProcessTask(_ context.Context, task *asynq.Task) error {
	ref, err := Decode(task.Payload())
	var newer *VersionError
	switch {
	case errors.As(err, &newer):
		return h.deferral(batch.Wait{Reason: "newer_worker"}, h.now().Add(time.Minute))
	case err != nil:
		h.log.Error("drop a task that is not ours", "queue", h.queue.Name, "error", err)
		return nil
	}
	if !h.gate.enter() {
		return h.handBack()
	}
	defer h.gate.leave()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-h.stop:
		return h.handBack()
	}
	return h.attempt(ref)
}

// handBack returns a task that this worker will not begin; nothing is spent.
func (h *handler) handBack() error {
	return &Deferral{Reason: "worker_stopping", Until: ceilSecond(h.now())}
}

func (h *handler) attempt(ref batch.Ref) error {
	lease := batch.Lease{Ref: ref, Token: newToken()}
	ctx, cancel := context.WithCancelCause(h.calls)
	defer cancel(nil)
	begun, err := h.begin(ctx, lease)
	if err != nil {
		h.log.Warn("begin failed", "batch", ref.Batch, "line", ref.Line, "error", err)
		return h.deferral(batch.Wait{Reason: ladder.ReasonStore}, h.now().Add(time.Second))
	}
	switch begun.Verdict {
	case batch.Granted:
	case batch.Held:
		return h.deferral(batch.Wait{Reason: "another_worker"}, h.now().Add(begun.HeldFor))
	default:
		h.ended(begun.Verdict)
		return nil
	}
	// The deadline passes by the clock of Redis; from here on it is on ours.
	if d := &begun.Description.Deadline; !d.IsZero() {
		*d = d.Add(h.now().Sub(begun.Now))
	}
	h.leases.add(lease, cancel)
	defer h.leases.remove(lease)
	run := h.traced(lease, begun)
	if out, closed := h.closed(begun); closed {
		return h.apply(run, out)
	}
	h.pace.begin(h.now())
	request := h.request(lease, begun)
	if run.trace != nil {
		request.Called = run.trace.Called
	}
	out := h.queue.Ladder.Attempt(ctx, request, &journal{h.lines, lease, begun.Progress.Trace, h.log})
	defer out.Leaving.Done()
	return h.apply(run, out)
}

// closed defers a line that was released before its queue closed. Nothing is
// spent, and it comes back when the queue opens.
func (h *handler) closed(b batch.Begun) (ladder.Outcome, bool) {
	now := h.now()
	opens := h.hours.Next(now)
	return ladder.Outcome{
		End: ladder.Deferred, Progress: toLadder(b.Progress),
		Waits: []ladder.Wait{{Reason: batch.ReasonHours, Until: opens}},
	}, opens.After(now)
}

// beginLimit bounds the wait for Redis at the start of an attempt.
const beginLimit = 10 * time.Second

// begin asks again where no answer came: the lease may have been taken all the
// same, and its token gets it again.
func (h *handler) begin(ctx context.Context, l batch.Lease) (batch.Begun, error) {
	ctx, cancel := context.WithTimeout(ctx, beginLimit)
	defer cancel()
	for {
		begun, err := h.lines.Begin(ctx, l.Ref, l.Token)
		if err == nil {
			return begun, nil
		}
		select {
		case <-ctx.Done():
			return batch.Begun{}, err
		case <-h.stop:
			return batch.Begun{}, err
		case <-time.After(beginPause):
		}
	}
}

// beginPause is the wait before Redis is asked again.
const beginPause = 500 * time.Millisecond

// ended counts the lines that Begin itself ended.
func (h *handler) ended(v batch.Verdict) {
	switch v {
	case batch.BatchCancelled:
		h.obs.LinesEnded(h.queue.Name, batch.Cancelled, 1)
	case batch.DeadlinePassed:
		h.obs.LinesEnded(h.queue.Name, batch.Expired, 1)
	case batch.Lost:
		h.obs.LinesEnded(h.queue.Name, batch.Failed, 1)
	}
}

// request is the line as this worker's attempt sees it.
func (h *handler) request(l batch.Lease, b batch.Begun) ladder.Request {
	r := lineRequest(l.Ref, b)
	r.Margin = batch.Margin(b.Outstanding, b.Description.Life())
	r.Retries, r.Stop, r.Queue = h.queue.Retries, h.stop, h.queue.Name
	return r
}

// lineRequest is a line with its batch and progress, whoever answers it.
func lineRequest(ref batch.Ref, b batch.Begun) ladder.Request {
	return ladder.Request{
		Batch: ref.Batch, Line: ref.Line, Generation: ref.Generation,
		Producer: b.Description.Producer, CustomID: b.Line.CustomID, Endpoint: b.Line.Endpoint, Body: b.Line.Body,
		Metadata: b.Line.Metadata, Schema: b.Line.Schema, Rung: b.Line.Rung, Goal: b.Line.Goal, NoProbe: b.Line.NoProbe,
		Rehearsal: b.Description.Rehearsal, Deadline: b.Description.Deadline, Progress: toLadder(b.Progress),
	}
}

// toLadder and toBatch convert between the two packages' view of a line's
// progress, which may not import each other.
func toLadder(p batch.Progress) ladder.Progress {
	q := ladder.Progress{
		Calls: p.Calls, Failures: p.Failures, Deferrals: p.Deferrals, RuledOut: p.RuledOut,
		FirstRefused: p.FirstRefused, FirstLimited: p.FirstLimited,
	}
	for _, s := range p.Skipped {
		q.Skipped = append(q.Skipped, ladder.Skip(s))
	}
	return q
}

func toBatch(p ladder.Progress) batch.Progress {
	q := batch.Progress{
		Calls: p.Calls, Failures: p.Failures, Deferrals: p.Deferrals, RuledOut: p.RuledOut,
		FirstRefused: p.FirstRefused, FirstLimited: p.FirstLimited,
	}
	for _, s := range p.Skipped {
		q.Skipped = append(q.Skipped, batch.Skip(s))
	}
	return q
}

// newToken returns a token that no other attempt has.
func newToken() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return hex.EncodeToString(b[:])
}
