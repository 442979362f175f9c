package alert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/notify"
)

const (
	lookEvery = 10 * time.Second
	sendEvery = time.Second
	// gap is how long a receiver is left alone between two messages: DingTalk takes 20
	// a minute, Slack one a second.
	gap = 4 * time.Second
	// lookLimit bounds a look, so that a silent Redis holds up nothing for long.
	lookLimit = 5 * time.Second
	// most bounds the messages that wait for one receiver.
	most = 1000
)

// Options are what a teller works with.
type Options struct {
	Redis     redis.UniversalClient
	Receivers []Receiver
	Rules     map[Event]Rule
	// Look returns what holds now, by event. An event that could not be looked for is
	// left out, and named by the error: of it nothing is taken for over.
	Look func(ctx context.Context) (map[Event][]Sighting, error)
	// Epoch is that of the keeper's lease; 0: another process has it.
	Epoch func() int64
	// Tried is told what became of each try.
	Tried  func(Result)
	Logger *slog.Logger
	// Now and Random are the clock and a source uniform over [0,1). Default to
	// Redis's clock and math/rand.
	Now    func() time.Time
	Random func() float64
}

// Teller looks for what receivers want to know, and tells them. Run it once.
type Teller struct {
	o     Options
	store *store

	mu    sync.Mutex
	busy  map[string]bool      // receivers that are being told
	spare map[string]time.Time // receivers that are left alone until then

	looked  time.Time
	trouble string // of the last round
}

// New returns a teller.
func New(o Options) *Teller {
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return &Teller{o: o, store: newStore(o.Redis, o.Now), busy: map[string]bool{}, spare: map[string]time.Time{}}
}

// Run looks and tells while this process is the keeper, until the context ends;
// it returns when the last try has settled.
func (t *Teller) Run(ctx context.Context) {
	var tries sync.WaitGroup
	defer tries.Wait()
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			look := now.Sub(t.looked) >= lookEvery
			if look {
				t.looked = now
			}
			t.round(ctx, look, &tries)
		}
	}
}

// round does what is due.
func (t *Teller) round(life context.Context, look bool, tries *sync.WaitGroup) {
	epoch := t.o.Epoch()
	if epoch == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(life, lookLimit)
	defer cancel()
	var err error
	if look {
		err = t.look(ctx, epoch)
	}
	err = errors.Join(err, t.send(ctx, life, epoch, tries))
	if life.Err() == nil {
		t.complain(err, look)
	}
}

// complain logs an error once while it stays the same. Looks are rarer than
// rounds: one without does not make the trouble of the last look forgotten.
func (t *Teller) complain(err error, looked bool) {
	switch {
	case err == nil && looked:
		t.trouble = ""
	case err != nil && !errors.Is(err, errFenced) && err.Error() != t.trouble:
		t.trouble = err.Error()
		t.o.Logger.Warn("looking for what receivers are told of failed", "error", err)
	}
}

// look makes occurrences of what is seen, and writes the messages.
func (t *Teller) look(ctx context.Context, epoch int64) error {
	seen, unseen := t.o.Look(ctx)
	k, err := t.store.known(ctx)
	if err != nil {
		return errors.Join(unseen, err)
	}
	changes, out := step(k.all, seen, t.o.Rules, t.wants, k.from, k.now)
	changes = append(t.dropped(k.damaged), changes...)
	waiting, _, err := t.store.letters(ctx)
	if err != nil {
		return errors.Join(unseen, err)
	}
	return errors.Join(unseen, t.store.write(ctx, epoch, changes, t.letters(out, waiting, k.now), k.now))
}

// dropped are the changes that drop what is known, but cannot be read.
func (t *Teller) dropped(keys []string) (changes []change) {
	for _, key := range keys {
		t.o.Logger.Warn("an alert that cannot be read is dropped; what it is about may be told again", "alert", key)
		changes = append(changes, change{key: key})
	}
	return changes
}

// wants are the receivers of an event.
func (t *Teller) wants(e Event) (ids []string) {
	for _, r := range t.o.Receivers {
		if slices.Contains(r.Events, e) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

func (t *Teller) receiver(id string) (Receiver, bool) {
	i := slices.IndexFunc(t.o.Receivers, func(r Receiver) bool { return r.ID == id })
	if i < 0 {
		return Receiver{}, false
	}
	return t.o.Receivers[i], true
}

// letters addresses news, behind what waits.
func (t *Teller) letters(out []news, waiting []letter, now time.Time) (all []letter) {
	count := map[string]int{}
	for _, l := range waiting {
		count[l.receiver()]++
	}
	for i, n := range out {
		for _, id := range n.to {
			r, is := t.receiver(id)
			if !is {
				continue // the configuration has it no more
			}
			if count[id]++; count[id] > most {
				t.o.Logger.Error("a message is dropped: too many wait for its receiver", "receiver", r.Name, "message", n.note.Title)
				t.o.Tried(GivenUp)
				continue
			}
			all = append(all, letter{
				ID: n.note.ID, Title: n.note.Title, Facts: n.note.Facts, Body: n.note.Body, Created: now.UnixMilli(),
				field: fmt.Sprintf("%s %015d %05d", id, now.UnixMilli(), i),
			})
		}
	}
	return all
}

// send begins a try of the oldest message of every receiver that has one due.
func (t *Teller) send(ctx, life context.Context, epoch int64, tries *sync.WaitGroup) error {
	all, now, err := t.store.letters(ctx)
	if err != nil {
		return err
	}
	first := map[string]bool{}
	var errs []error
	for _, l := range all {
		id := l.receiver()
		if first[id] {
			continue
		}
		first[id] = true
		r, is := t.receiver(id)
		switch {
		case l.damage != nil:
			errs = append(errs, t.forget(ctx, epoch, l, "it cannot be read: "+l.damage.Error()))
		case !is:
			errs = append(errs, t.forget(ctx, epoch, l, "its receiver is not configured any more"))
		case l.Next <= now.UnixMilli() && t.take(id, now):
			errs = append(errs, t.try(ctx, life, epoch, r, l, now, tries))
		}
	}
	return errors.Join(errs...)
}

// forget drops a message that nobody can be told.
func (t *Teller) forget(ctx context.Context, epoch int64, l letter, why string) error {
	_, done, err := t.store.replace(ctx, epoch, l, nil)
	if done {
		t.o.Logger.Warn("a message is dropped: "+why, "message", cmp.Or(l.Title, l.field))
	}
	return err
}

// take says whether a receiver is free, and takes it.
func (t *Teller) take(id string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy[id] || now.Before(t.spare[id]) {
		return false
	}
	t.busy[id] = true
	return true
}

func (t *Teller) free(id string, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy[id], t.spare[id] = false, until
}

// try takes the message from other keepers and sends it.
func (t *Teller) try(ctx, life context.Context, epoch int64, r Receiver, l letter, now time.Time, tries *sync.WaitGroup) error {
	held := l
	held.Tries, held.Next = l.Tries+1, now.Add(notify.Hold).UnixMilli()
	held, mine, err := t.store.replace(ctx, epoch, l, &held)
	if err != nil || !mine {
		t.free(r.ID, now)
		return err
	}
	tries.Go(func() {
		defer t.free(r.ID, now.Add(gap))
		t.tell(life, r, held, now)
	})
	return nil
}

// tell sends a message and notes what became of it.
func (t *Teller) tell(life context.Context, r Receiver, l letter, now time.Time) {
	call, end := notify.Outlast(life)
	defer end()
	begun := time.Now()
	err := r.Hook.Tell(call, l.note())
	since := now.Add(time.Since(begun)).Sub(time.UnixMilli(l.Created))
	next, what := t.judge(l, err, since)
	t.o.Tried(what)
	attrs := []any{"receiver", r.Name, "message", l.Title, "try", l.Tries}
	switch what {
	case Told:
		t.o.Logger.Info("told a receiver", attrs...)
	case Failed:
		t.o.Logger.Warn("telling a receiver failed", append(attrs, "error", err, "again_in", time.UnixMilli(next.Next).Sub(now).Round(time.Second))...)
	case GivenUp:
		t.o.Logger.Error("telling a receiver is given up", append(attrs, "error", err)...)
	}
	t.settle(life, l, next)
}

// judge says what a try amounts to, and what becomes of the message; nil: it goes.
func (t *Teller) judge(l letter, err error, since time.Duration) (*letter, Result) {
	if err == nil {
		return nil, Told
	}
	wait := notify.NextTry(err, l.Tries, since, t.o.Random())
	if wait == 0 {
		return nil, GivenUp
	}
	l.Next = l.Created + (since + wait).Milliseconds()
	return &l, Failed
}

// settle notes what became of a try.
func (t *Teller) settle(life context.Context, l letter, next *letter) {
	err := notify.Settle(life, func(ctx context.Context) error {
		_, _, err := t.store.replace(ctx, 0, l, next)
		return err
	})
	if err != nil {
		t.o.Logger.Warn("the result of telling a receiver is lost; it is told again", "message", l.Title, "try", l.Tries, "error", err)
	}
}
