package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"nightshift/internal/notify"
	"nightshift/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "a secret that only tests know"

// told is one message that a receiver got.
type told struct {
	ID    string
	Type  string          `json:"type"`
	Since time.Time       `json:"since"`
	Data  json.RawMessage `json:"data"`
}

// receiver is a real server that checks signatures.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []told
	status int
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{status: http.StatusOK}
	hook, err := standardwebhooks.NewWebhookRaw([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		m := told{ID: req.Header.Get("webhook-id")}
		if err := errors.Join(err, hook.Verify(body, req.Header), json.Unmarshal(body, &m)); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, m)
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answers(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) types() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.got {
		all = append(all, m.Type)
	}
	return all
}

// rig is a Redis, receivers and keepers, with a clock that the test steps.
type rig struct {
	t    *testing.T
	rdb  *redis.Client
	now  time.Time
	seen map[Event][]Sighting
	log  bytes.Buffer
	mu   sync.Mutex
	all  []Result
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, rdb: redistest.Client(t), now: begin, seen: map[Event][]Sighting{BreakerOpenLong: nil, BatchDone: nil}}
}

func (r *rig) to(id, url string, events ...Event) Receiver {
	r.t.Helper()
	h, err := notify.NewHook(url, notify.JSON, notify.Options{Secret: secret, Private: true})
	if err != nil {
		r.t.Fatal(err)
	}
	return Receiver{ID: id, Name: "json " + id, Events: events, Hook: h}
}

func (r *rig) keeper(epoch int64, to ...Receiver) *Teller {
	return New(Options{
		Redis: r.rdb, Receivers: to, Rules: map[Event]Rule{BreakerOpenLong: {After: time.Minute}, BatchDone: {}},
		Look:  func(context.Context) (map[Event][]Sighting, error) { return r.seen, nil },
		Epoch: func() int64 { return epoch }, Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
		Tried: func(what Result) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.all = append(r.all, what)
		},
		Now: func() time.Time { return r.now }, Random: func() float64 { return 0.5 },
	})
}

// round lets a keeper look and send, until its tries have settled.
func (r *rig) round(k *Teller) {
	var tries sync.WaitGroup
	k.round(context.Background(), true, &tries)
	tries.Wait()
}

// lasts has rounds of the keeper every 10 s for so long.
func (r *rig) lasts(d time.Duration, k *Teller) {
	for range int(d / (10 * time.Second)) {
		r.round(k)
		r.now = r.now.Add(10 * time.Second)
	}
}

func (r *rig) expect(to *receiver, want ...string) {
	r.t.Helper()
	if got := to.types(); !slices.Equal(got, want) {
		r.t.Errorf("told %v, want %v; %s", got, want, r.log.String())
	}
}

const (
	openLong = string(BreakerOpenLong)
	resolved = openLong + ".resolved"
)

func TestTell_OnceThoughKeepersChange(t *testing.T) {
	r, got := newRig(t), newReceiver(t)
	to := r.to("r", got.URL, BreakerOpenLong, BatchDone)
	r.seen[BreakerOpenLong] = []Sighting{open("a")}
	r.lasts(time.Minute, r.keeper(1, to))
	r.expect(got)
	r.lasts(time.Minute, r.keeper(2, to)) // it goes on where the first stood
	r.expect(got, openLong)
	r.lasts(10*time.Minute, r.keeper(3, to))
	r.expect(got, openLong)
	r.seen[BreakerOpenLong] = nil
	r.lasts(time.Minute, r.keeper(2, to)) // an old one, which the third has overtaken
	r.expect(got, openLong)
	r.lasts(time.Minute, r.keeper(4, to))
	r.lasts(time.Minute, r.keeper(5, to))
	r.expect(got, openLong, resolved)
	first, second := got.got[0], got.got[1]
	if first.ID == second.ID || string(first.Data) != `{"model":"a"}` || string(second.Data) != `{"model":"a"}` || !first.Since.Equal(begin) || !second.Since.Equal(begin) {
		t.Errorf("%+v, %+v", first, second)
	}
	if left, _ := r.rdb.HLen(t.Context(), messagesKey).Result(); left != 0 {
		t.Errorf("%d messages are left", left)
	}
	if strings.Contains(r.log.String(), got.URL) {
		t.Errorf("the log shows the URL: %s", r.log.String())
	}
}

func TestTell_NobodyWithoutTheLease(t *testing.T) {
	r, got := newRig(t), newReceiver(t)
	r.seen[BreakerOpenLong] = []Sighting{open("a")}
	r.lasts(5*time.Minute, r.keeper(0, r.to("r", got.URL, BreakerOpenLong)))
	r.expect(got)
}

func TestTell_ReceiverFailsThenHeals(t *testing.T) {
	r, bad, good := newRig(t), newReceiver(t), newReceiver(t)
	bad.answers(http.StatusInternalServerError)
	k := r.keeper(1, r.to("bad", bad.URL, BreakerOpenLong), r.to("good", good.URL, BreakerOpenLong))
	r.seen[BreakerOpenLong] = []Sighting{open("a")}
	r.lasts(2*time.Minute, k)
	r.seen[BreakerOpenLong] = nil
	r.lasts(10*time.Minute, k)
	r.expect(good, openLong, resolved)
	tries := len(bad.types())
	if tries < 3 || tries > 10 || slices.Contains(bad.types(), resolved) {
		t.Errorf("tried %v in eleven minutes; want the first message alone, less and less often", bad.types())
	}
	bad.answers(http.StatusOK)
	r.lasts(30*time.Minute, r.keeper(2, r.to("bad", bad.URL, BreakerOpenLong)))
	all := bad.types()
	if n := len(all); !slices.Equal(all[n-2:], []string{openLong, resolved}) || slices.Index(all, resolved) != n-1 {
		t.Errorf("told %v; want both in their order at last", all)
	}
	for _, m := range bad.got[:len(bad.got)-1] {
		if m.ID != bad.got[0].ID {
			t.Errorf("repetitions under %s and %s", m.ID, bad.got[0].ID)
		}
	}
	if want := map[Result]int{Failed: len(all) - 2, Told: 4}; !counted(r.all, want) {
		t.Errorf("counted %v, want %v", r.all, want)
	}
	if !strings.Contains(r.log.String(), `msg="telling a receiver failed" receiver="json bad" message="a open" try=1 error="answered 500 Internal Server Error" again_in=5s`) {
		t.Errorf("the log says nothing of it: %s", r.log.String())
	}
}

func counted(all []Result, want map[Result]int) bool {
	got := map[Result]int{}
	for _, r := range all {
		got[r]++
	}
	return len(got) == len(want) && got[Failed] == want[Failed] && got[Told] == want[Told] && got[GivenUp] == want[GivenUp]
}

func TestTell_GivesUp(t *testing.T) {
	r, gone, dead := newRig(t), newReceiver(t), newReceiver(t)
	gone.answers(http.StatusGone)
	dead.answers(http.StatusBadGateway)
	k := r.keeper(1, r.to("gone", gone.URL, BatchDone), r.to("dead", dead.URL, BatchDone))
	r.round(k) // since now
	r.seen[BatchDone] = []Sighting{{Event: BatchDone, Subject: "b 1", At: begin.Add(time.Second), Title: "b done"}}
	r.lasts(25*time.Hour, k)
	r.expect(gone, string(BatchDone))
	if n := len(dead.types()); n < 30 || n > 40 {
		t.Errorf("tried %d times in a day", n)
	}
	if !counted(r.all, map[Result]int{Failed: len(dead.types()) - 1, GivenUp: 2}) {
		t.Errorf("counted %v", r.all)
	}
	if left, _ := r.rdb.HLen(t.Context(), messagesKey).Result(); left != 0 {
		t.Errorf("%d messages are left", left)
	}
}

// A keeper that dies between the answer and its note of it: what was taken is
// told once more, by the same ID, after a minute.
func TestTell_KeeperDiesInTheMiddle(t *testing.T) {
	r, got := newRig(t), newReceiver(t)
	to := r.to("r", got.URL, BreakerOpenLong)
	r.seen[BreakerOpenLong] = []Sighting{open("a")}
	k := r.keeper(1, to)
	r.lasts(time.Minute, k)
	before, _ := r.rdb.HGetAll(t.Context(), messagesKey).Result()
	if len(before) != 0 {
		t.Fatalf("%v", before)
	}
	if err := k.look(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	ls, _, err := k.store.letters(t.Context())
	if err != nil || len(ls) != 1 {
		t.Fatal(ls, err)
	}
	held := ls[0]
	held.Tries, held.Next = 1, r.now.Add(notify.Hold).UnixMilli()
	if _, mine, err := k.store.replace(t.Context(), 1, ls[0], &held); !mine || err != nil {
		t.Fatal(mine, err)
	}
	next := r.keeper(2, to)
	r.lasts(notify.Hold, next)
	r.expect(got)
	r.lasts(20*time.Second, next)
	r.expect(got, openLong)
}

func TestTell_ReceiversOfTheirEvents(t *testing.T) {
	r, one, two := newRig(t), newReceiver(t), newReceiver(t)
	k := r.keeper(1, r.to("one", one.URL, BreakerOpenLong), r.to("two", two.URL, BatchDone))
	r.round(k)
	r.seen[BreakerOpenLong] = []Sighting{open("a"), open("b")}
	r.seen[BatchDone] = []Sighting{{Event: BatchDone, Subject: "b 1", At: begin.Add(time.Second), Title: "b done"}}
	r.lasts(2*time.Minute, k)
	r.expect(one, openLong, openLong)
	r.expect(two, string(BatchDone))
	// One leaves the configuration: what is over is no news to those who come.
	r.seen[BreakerOpenLong] = nil
	r.lasts(2*time.Minute, r.keeper(2, r.to("two", two.URL, BreakerOpenLong, BatchDone)))
	r.expect(one, openLong, openLong)
	r.expect(two, string(BatchDone))
}

// What cannot be read is said once, and nothing is taken for over.
func TestTell_TroubleIsLoggedOnce(t *testing.T) {
	r, got := newRig(t), newReceiver(t)
	r.seen[BreakerOpenLong] = []Sighting{open("a")}
	k := r.keeper(1, r.to("r", got.URL, BreakerOpenLong))
	r.lasts(2*time.Minute, k)
	k.o.Look = func(context.Context) (map[Event][]Sighting, error) { return nil, errors.New("redis is away") }
	r.lasts(10*time.Minute, k)
	r.expect(got, openLong)
	if n := strings.Count(r.log.String(), "redis is away"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, r.log.String())
	}
}

// One record that cannot be read costs what it says, and nobody else's alerts.
func TestTell_DamagedRecordsAreDropped(t *testing.T) {
	r, got := newRig(t), newReceiver(t)
	r.seen[BreakerOpenLong] = []Sighting{open("a"), open("b")}
	k := r.keeper(1, r.to("r", got.URL, BreakerOpenLong))
	r.lasts(2*time.Minute, k)
	r.expect(got, openLong, openLong)
	ctx := t.Context()
	r.rdb.HSet(ctx, knownKey, ofKnown+openLong+" b", "torn{", ofKnown+openLong+" gone", "")
	r.rdb.HSet(ctx, messagesKey, "r 000000000000001 00000", `{"title": 1}`)
	r.lasts(2*time.Minute, k)
	r.seen[BreakerOpenLong] = []Sighting{open("b")}
	r.lasts(10*time.Minute, k)
	r.expect(got, openLong, openLong, openLong, resolved) // b once more, and the end of a
	if n := r.rdb.HLen(ctx, messagesKey).Val(); n != 0 || r.rdb.HExists(ctx, knownKey, ofKnown+openLong+" gone").Val() {
		t.Errorf("%d messages and what cannot be read are left", n)
	}
	for want, times := range map[string]int{"an alert that cannot be read is dropped": 2, "a message is dropped: it cannot be read": 1} {
		if n := strings.Count(r.log.String(), want); n != times {
			t.Errorf("%q is logged %d times:\n%s", want, n, r.log.String())
		}
	}
}

func TestRun_LooksAndEnds(t *testing.T) {
	r, got := newRig(t), newReceiver(t)
	r.seen[BreakerOpenLong] = []Sighting{open("a")}
	k := r.keeper(1, r.to("r", got.URL, BreakerOpenLong))
	k.o.Rules[BreakerOpenLong] = Rule{}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.Run(ctx)
	}()
	for deadline := time.Now().Add(20 * time.Second); len(got.types()) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is told")
		}
	}
	stop()
	<-ended
	r.expect(got, openLong)
}

// A message that another has taken or settled meanwhile is left as it is.
func TestReplace_OnlyWhatIsAsItWasRead(t *testing.T) {
	r := newRig(t)
	k := r.keeper(1, r.to("r", "http://127.0.0.1:1/", BreakerOpenLong))
	if err := k.store.write(t.Context(), 1, nil, []letter{{ID: "m", field: "r 1 1"}}, r.now); err != nil {
		t.Fatal(err)
	}
	all, _, err := k.store.letters(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	read, held := all[0], all[0]
	held.Tries = 1
	held, first, err := k.store.replace(t.Context(), 1, read, &held)
	_, second, err2 := k.store.replace(t.Context(), 1, read, &held)
	_, gone, err3 := k.store.replace(t.Context(), 0, read, nil)
	if !first || second || gone || errors.Join(err, err2, err3) != nil {
		t.Errorf("%v, then %v and %v; %v", first, second, gone, errors.Join(err, err2, err3))
	}
	if _, done, err := k.store.replace(t.Context(), 0, held, nil); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
}
