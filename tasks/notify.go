package tasks

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"nightshift/batch"
	"nightshift/internal/notify"
)

// Notices is what the keeper needs of package batch to tell of ends.
type Notices interface {
	TakeNotices(ctx context.Context, epoch int64, n int, hold time.Duration) ([]batch.Notice, error)
	SettleNotice(ctx context.Context, n batch.Notice, r batch.NoticeResult) error
}

// Notifier posts messages; *notify.Sender is one.
type Notifier interface {
	Send(ctx context.Context, to, id string, body []byte) error
}

// Notification is what became of a try at telling of a batch's end, as the
// metrics count it.
type Notification string

// The results of a try.
const (
	NotificationTold    Notification = "told"
	NotificationFailed  Notification = "failed"   // it is tried again
	NotificationGivenUp Notification = "given_up" // or the receiver wants none
)

const (
	// noticeEvery is how often the keeper looks for ends that are to be told of.
	noticeEvery = time.Second
	// noticesAtOnce bounds the receivers that are waited for at a time.
	noticesAtOnce = 32
)

// messenger is the keeper's part that tells URLs of the ends of batches, beside its
// rounds: a receiver that is silent holds up no line.
type messenger struct {
	notices Notices
	sender  Notifier
	epoch   func() int64 // the keeper's; 0: another is it
	obs     Observer
	log     *slog.Logger
	now     func() time.Time
	random  func() float64

	places  chan struct{} // taken by tries under way
	trouble string        // of the last look
}

func newMessenger(o Options, epoch func() int64) *messenger {
	return &messenger{
		notices: o.Notices, sender: o.Notifier, epoch: epoch, obs: o.Observer, log: o.Logger, now: o.Now, random: o.Random,
		places: make(chan struct{}, noticesAtOnce),
	}
}

// run tells until the context ends, and returns when the last try has settled.
func (m *messenger) run(ctx context.Context) {
	if m.sender == nil {
		return
	}
	var tries sync.WaitGroup
	defer tries.Wait()
	tick := time.NewTicker(noticeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.look(ctx, &tries)
		}
	}
}

// look begins the tries that are due, as many as there are places.
func (m *messenger) look(ctx context.Context, tries *sync.WaitGroup) {
	epoch, room := m.epoch(), cap(m.places)-len(m.places)
	if epoch == 0 || room == 0 {
		return
	}
	asking, cancel := context.WithTimeout(ctx, tickLimit)
	defer cancel()
	due, err := m.notices.TakeNotices(asking, epoch, room, notify.Hold)
	m.complain(ctx, err)
	for _, n := range due {
		m.places <- struct{}{}
		tries.Go(func() {
			defer func() { <-m.places }()
			m.tell(ctx, n)
		})
	}
}

// complain logs an error once while it stays the same.
func (m *messenger) complain(ctx context.Context, err error) {
	text := ""
	if err != nil && ctx.Err() == nil && !errors.Is(err, batch.ErrFenced) {
		if text = err.Error(); text != m.trouble {
			m.log.Warn("looking for ends to tell of failed", "error", err)
		}
	}
	m.trouble = text
}

// tell makes one try and notes what became of it.
func (m *messenger) tell(ctx context.Context, n batch.Notice) {
	begun := m.now()
	err := m.send(ctx, n)
	r, what := m.judge(n, err, m.now().Sub(begun))
	m.obs.Notified(what)
	attrs := []any{"batch", n.Batch, "try", n.Try}
	switch what {
	case NotificationTold:
		m.log.Info("told of a batch's end", attrs...)
	case NotificationFailed:
		m.log.Warn("telling of a batch's end failed", append(attrs, "error", err, "again_in", r.Again.Round(time.Second))...)
	case NotificationGivenUp:
		m.log.Error("telling of a batch's end is given up", append(attrs, "error", err)...)
	}
	m.settle(ctx, n, r)
}

// send lets a receiver that is being told answer for a while when the worker stops.
func (m *messenger) send(ctx context.Context, n batch.Notice) error {
	call, end := notify.Outlast(ctx)
	defer end()
	return m.sender.Send(call, n.URL, n.ID, n.Body)
}

// judge says what a try that took so long amounts to.
func (m *messenger) judge(n batch.Notice, err error, took time.Duration) (batch.NoticeResult, Notification) {
	if err == nil {
		return batch.NoticeResult{Told: true}, NotificationTold
	}
	r := batch.NoticeResult{Error: err.Error(), Again: notify.NextTry(err, n.Try, n.Since+took, m.random())}
	if r.Again == 0 {
		return r, NotificationGivenUp
	}
	return r, NotificationFailed
}

// settle notes a result.
func (m *messenger) settle(life context.Context, n batch.Notice, r batch.NoticeResult) {
	err := notify.Settle(life, func(ctx context.Context) error { return m.notices.SettleNotice(ctx, n, r) })
	if err != nil {
		m.log.Warn("the result of telling of a batch's end is lost; it is told again", "batch", n.Batch, "try", n.Try, "error", err)
	}
}
