package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"nightshift/batch"
	"nightshift/internal/notify"
	"nightshift/ladder"
)

// timeoutOfSends is how long a notify.Sender waits.
const timeoutOfSends = 10 * time.Second

const noticeSecret = "a secret that only tests know"

// receiver is a real server that checks signatures and keeps what it was told.
type receiver struct {
	*httptest.Server
	t      *testing.T
	answer http.HandlerFunc
	got    chan told
}

// told is one message.
type told struct {
	ID   string
	Body string
	Data struct {
		ID, State        string
		Total, Succeeded int
	}
}

func newReceiver(t *testing.T, answer http.HandlerFunc) *receiver {
	rec := &receiver{t: t, answer: answer, got: make(chan told, 100)}
	rec.Server = httptest.NewServer(rec)
	t.Cleanup(rec.Close)
	return rec
}

func (rec *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	hook, _ := standardwebhooks.NewWebhookRaw([]byte(noticeSecret))
	m := told{ID: r.Header.Get("webhook-id"), Body: string(body)}
	if err := errors.Join(err, hook.Verify(body, r.Header), json.Unmarshal(body, &m)); err != nil {
		rec.t.Error(err)
	}
	rec.got <- m
	rec.answer(w, r)
}

// silence answers nobody until the client goes.
func silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func ok(http.ResponseWriter, *http.Request) {}

// stepped is a clock that a test steps.
type stepped struct {
	mu sync.Mutex
	t  time.Time
}

func (c *stepped) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *stepped) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// notifications is an observer that keeps the results of tries.
type notifications struct {
	silent
	mu  sync.Mutex
	all []Notification
}

func (n *notifications) Notified(what Notification) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, what)
}

// noticeRig is a Redis whose clock a test steps, and a keeper's messenger.
type noticeRig struct {
	*rig
	clock *stepped
	seen  *notifications
	m     *messenger
}

func newNoticeRig(t *testing.T) *noticeRig {
	clock := &stepped{t: time.Now().Truncate(time.Millisecond)}
	r := &noticeRig{rig: newRig(t, batch.Options{Now: clock.now}), clock: clock, seen: &notifications{}}
	r.m = r.messenger(r.store, 1, 5*time.Second)
	return r
}

// messenger is that of a keeper with an epoch.
func (r *noticeRig) messenger(n Notices, epoch int64, timeout time.Duration) *messenger {
	o := r.options(nil)
	o.Notices, o.Notifier, o.Observer = n, r.sender(timeout), r.seen
	o.Now, o.Random = r.clock.now, func() float64 { return 0.5 } // neither sooner nor later
	return newMessenger(o, func() int64 { return epoch })
}

func (r *rig) sender(timeout time.Duration) Notifier {
	s, err := notify.New(notify.Options{Secret: noticeSecret, Private: true, Timeout: timeout})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// ended submits a batch of three lines that is over at once.
func (r *noticeRig) ended(id, url string) {
	r.t.Helper()
	ctx := context.Background()
	r.submit(id, 3, func(d *batch.Description) { d.Notify, d.CreatedAt = url, r.clock.now() })
	if err := r.store.Cancel(ctx, id); err != nil {
		r.t.Fatal(err)
	}
	if n, err := r.store.End(ctx, id, 1, batch.Cancelled, 3); n != 3 || err != nil {
		r.t.Fatal(n, err)
	}
	if _, err := r.store.Backlogs(ctx); err != nil { // the keeper's round sees the end
		r.t.Fatal(err)
	}
}

// tell lets a messenger look once and waits until its tries have settled.
func (r *noticeRig) tell(m *messenger) {
	var tries sync.WaitGroup
	m.look(context.Background(), &tries)
	tries.Wait()
}

func (r *noticeRig) notified(id string) batch.Notified {
	r.t.Helper()
	st, err := r.store.Status(context.Background(), id)
	if err != nil || st.Notify == nil {
		r.t.Fatalf("%+v, %v", st.Notify, err)
	}
	return *st.Notify
}

func TestNotify_FailsTwiceThenAnswers(t *testing.T) {
	r := newNoticeRig(t)
	tries := 0
	rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		tries++
		switch tries {
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2:
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	r.ended("b", rec.URL)
	for _, after := range []time.Duration{5 * time.Second, 10 * time.Minute} {
		r.tell(r.m)
		n := r.notified("b")
		if n.State != batch.NotifyWaiting || n.Error == "" || !n.NextAt.Equal(r.clock.now().Add(after)) {
			t.Errorf("%+v; want the next in %s", n, after)
		}
		r.clock.step(after - time.Millisecond)
		r.tell(r.m) // not yet
		r.clock.step(time.Millisecond)
	}
	r.tell(r.m)
	if n := r.notified("b"); n.State != batch.NotifyTold || n.Attempts != 3 || !n.ToldAt.Equal(r.clock.now()) {
		t.Errorf("%+v", n)
	}
	r.clock.step(48 * time.Hour)
	r.tell(r.m)
	if len(rec.got) != 3 {
		t.Fatalf("told %d times", len(rec.got))
	}
	first, second, third := <-rec.got, <-rec.got, <-rec.got
	if first != second || second != third || first.Data.ID != "b" || first.Data.State != "done" || first.Data.Total != 3 {
		t.Errorf("%+v, %+v, %+v", first, second, third)
	}
	if want := []Notification{NotificationFailed, NotificationFailed, NotificationTold}; !slices.Equal(r.seen.all, want) {
		t.Error(r.seen.all)
	}
}

func TestNotify_GivesUpAfterADay(t *testing.T) {
	r := newNoticeRig(t)
	rec := newReceiver(t, silence)
	r.m = r.messenger(r.store, 1, 20*time.Millisecond)
	r.ended("b", rec.URL)
	begun := r.clock.now()
	n := r.notified("b")
	for r.tell(r.m); ; r.tell(r.m) {
		if n = r.notified("b"); n.State != batch.NotifyWaiting {
			break
		}
		r.clock.step(n.NextAt.Sub(r.clock.now()))
	}
	took := r.clock.now().Sub(begun)
	if n.State != batch.NotifyFailed || n.Error != "no answer in time" || n.NextAt != nil || took != notify.TryFor || n.Attempts != 34 {
		t.Errorf("%+v after %s", n, took)
	}
	if len(rec.got) != n.Attempts || r.seen.all[len(r.seen.all)-1] != NotificationGivenUp {
		t.Errorf("%d messages, %v", len(rec.got), r.seen.all)
	}
}

func TestNotify_GoneIsTheEnd(t *testing.T) {
	r := newNoticeRig(t)
	rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	r.ended("b", rec.URL)
	r.tell(r.m)
	r.clock.step(48 * time.Hour)
	r.tell(r.m)
	if n := r.notified("b"); n.State != batch.NotifyFailed || n.Attempts != 1 || n.Error != "answered 410 Gone" || len(rec.got) != 1 {
		t.Errorf("%+v, %d messages", n, len(rec.got))
	}
}

// dying is a keeper that dies between what it sent and its note of it.
type dying struct{ Notices }

func (dying) SettleNotice(context.Context, batch.Notice, batch.NoticeResult) error { return nil }

// What the receiver took is told again, since nobody knows, by the same ID; what
// was noted is not.
func TestNotify_KeeperDiesInTheMiddle(t *testing.T) {
	r := newNoticeRig(t)
	rec := newReceiver(t, ok)
	r.ended("b", rec.URL)
	r.tell(r.messenger(dying{r.store}, 1, time.Second))
	next := r.messenger(r.store, 2, time.Second)
	r.clock.step(timeoutOfSends + notify.Noting)
	r.tell(next) // it could still be under way
	if len(rec.got) != 1 {
		t.Fatalf("%d messages before the hold ended", len(rec.got))
	}
	r.clock.step(notify.Hold - timeoutOfSends - notify.Noting)
	r.tell(r.m) // an old keeper is fenced off once the new one was seen
	r.tell(next)
	r.clock.step(time.Hour)
	r.tell(r.messenger(r.store, 3, time.Second))
	if len(rec.got) != 2 {
		t.Fatalf("%d messages", len(rec.got))
	}
	if first, second := <-rec.got, <-rec.got; first != second {
		t.Errorf("%+v, then %+v", first, second)
	}
}

// forgetful loses Redis for the first notes.
type forgetful struct {
	Notices
	left int
}

func (f *forgetful) SettleNotice(ctx context.Context, n batch.Notice, r batch.NoticeResult) error {
	if f.left--; f.left >= 0 {
		return errors.New("redis is away")
	}
	return f.Notices.SettleNotice(ctx, n, r)
}

func TestNotify_NotesWhenRedisIsBack(t *testing.T) {
	r := newNoticeRig(t)
	rec := newReceiver(t, ok)
	r.ended("b", rec.URL)
	r.tell(r.messenger(&forgetful{r.store, 1}, 1, time.Second))
	if n := r.notified("b"); n.State != batch.NotifyTold || len(rec.got) != 1 {
		t.Errorf("%+v, %d messages", n, len(rec.got))
	}
}

// watched shows the contexts that messages are sent under.
type watched struct {
	Notifier
	under chan context.Context
}

func (w watched) Send(ctx context.Context, to, id string, body []byte) error {
	w.under <- ctx
	return w.Notifier.Send(ctx, to, id, body)
}

// A receiver that is silent holds up no other, and a worker that stops lets one
// that is being told answer.
func TestNotify_SilentReceiversAndStops(t *testing.T) {
	r := newNoticeRig(t)
	answer := make(chan struct{})
	slow := newReceiver(t, func(http.ResponseWriter, *http.Request) { <-answer })
	quick := newReceiver(t, ok)
	r.ended("slow", slow.URL)
	sends := watched{r.m.sender, make(chan context.Context, 2)}
	r.m.sender = sends
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.m.run(ctx)
	}()
	<-slow.got
	being := <-sends.under
	r.ended("quick", quick.URL)
	<-quick.got
	r.until(20*time.Second, "the quick one is told", func() bool { return r.notified("quick").State == batch.NotifyTold })
	stop()
	if being.Err() != nil {
		t.Error("cut off as soon as the worker stops")
	}
	close(answer)
	<-ended
	if n := r.notified("slow"); n.State != batch.NotifyTold {
		t.Errorf("%+v", n)
	}
}

// Two real workers in turn: the second tells only of what ends under it.
func TestNotify_WorkersInTurn(t *testing.T) {
	r := newRig(t, batch.Options{})
	rec := newReceiver(t, ok)
	c := climb(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome { return answer(q) })
	ids := map[string]bool{}
	for i := range 2 {
		id := fmt.Sprint("b", i)
		r.submit(id, 5, func(d *batch.Description) { d.Notify = rec.URL })
		w := r.worker(c, func(o *Options) { o.Notices, o.Notifier = r.store, r.sender(time.Second) })
		r.until(30*time.Second, id+" is told of", func() bool {
			st, err := r.store.Status(context.Background(), id)
			return err == nil && st.Notify.State == batch.NotifyTold
		})
		if m := <-rec.got; m.Data.ID != id || m.Data.Succeeded != 5 || ids[m.ID] {
			t.Errorf("%+v", m)
		} else {
			ids[m.ID] = true
		}
		if err := w.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if len(rec.got) != 0 {
		t.Errorf("told again: %+v", <-rec.got)
	}
}
