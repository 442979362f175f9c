package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/dashboard"
)

// liveEvent is what a stream sends.
type liveEvent struct {
	Now  int64
	At   string
	HTML string
}

// stream follows a page until the test ends; events come in the order sent, and the
// channel is closed at the end of the stream.
func (b *bundle) stream(t *testing.T, page string) (<-chan liveEvent, int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/live?page="+url.QueryEscape(page), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	transport := &http.Transport{}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan liveEvent, 100)
	go func() {
		defer close(events)
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 8<<20)
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var e liveEvent
			if json.Unmarshal([]byte(data), &e) == nil {
				events <- e
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range events { // ends with the body
		}
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
	})
	return events, resp.StatusCode
}

func next(t *testing.T, events <-chan liveEvent) liveEvent {
	t.Helper()
	select {
	case e, ok := <-events:
		if !ok {
			t.Fatal("the stream ended")
		}
		return e
	case <-time.After(stepLimit):
		t.Fatal("no event came")
	}
	return liveEvent{}
}

// A stream sends the page, then the time alone while it stays, then what changed.
func TestLive(t *testing.T) {
	var elapsed atomic.Int64
	b := setup(t, func(o *dashboard.Options) {
		withNight(o)
		o.Now = func() time.Time { return now.Add(time.Duration(elapsed.Load())) }
	})
	b.fill()
	b.paces.list = nil // the end of a park is told from now
	events, _ := b.stream(t, "/breakers")
	first := next(t, events)
	if first.Now != now.UnixMilli() || first.At != "23:10:00" || !strings.Contains(first.HTML, "<h1>Breakers</h1>") || strings.Contains(first.HTML, "<html") {
		t.Fatalf("the first event is %+v", first)
	}
	elapsed.Store(int64(3 * time.Second)) // times count on, which the browser does by itself
	if second := next(t, events); second.HTML != "" || second.At != "23:10:03" {
		t.Fatalf("nothing changed, and the second event is %+v", second)
	}
	_, all := aNight(now)
	all[1].State = breaker.Closed
	b.breakers.set(all)
	if third := next(t, events); !strings.Contains(text(third.HTML), "1 of 4 not closed") {
		t.Fatalf("a breaker closed, and the third event is %+v", third)
	}
}

// A path that leads elsewhere is no page: its stream sends the time alone.
func TestLiveOfARedirect(t *testing.T) {
	b := setup(t, withNight)
	b.fill()
	events, _ := b.stream(t, "/batches/summaries-2026-10-05?line=7")
	if first := next(t, events); first.HTML != "" || first.At != "23:10:00" {
		t.Errorf("the first event is %+v", first)
	}
}

// However many look at a page, it is read once for all of them.
func TestLiveIsReadOnceForAll(t *testing.T) {
	b := setup(t, nil)
	b.fill()
	var all []<-chan liveEvent
	for range 10 {
		events, _ := b.stream(t, "/batches")
		all = append(all, events)
	}
	for _, events := range all {
		if e := next(t, events); !strings.Contains(e.HTML, "translations") {
			t.Fatalf("the first event is %+v", e)
		}
	}
	b.batches.mu.Lock()
	defer b.batches.mu.Unlock()
	if b.batches.listed > 5 {
		t.Errorf("ten readers cost %d looks", b.batches.listed)
	}
}

// Streams are bounded, and end when the dashboard does: goleak sees those that stay.
func TestLiveIsBoundedAndEnds(t *testing.T) {
	b := setup(t, nil)
	var last <-chan liveEvent
	for i := range 48 {
		events, status := b.stream(t, fmt.Sprintf("/?n=%d", i))
		if status != http.StatusOK {
			t.Fatalf("stream %d: status %d", i, status)
		}
		last = events
	}
	if _, status := b.stream(t, "/"); status != http.StatusServiceUnavailable {
		t.Errorf("one more: status %d", status)
	}
	next(t, last)
	b.end()
	for {
		select {
		case _, ok := <-last:
			if ok {
				continue
			}
		case <-time.After(stepLimit):
			t.Error("the stream goes on")
		}
		break
	}
}

func TestLiveFollowsPagesAlone(t *testing.T) {
	b := setup(t, nil)
	for _, page := range []string{"", "fleet", "//evil.example/", "https://evil.example/", "/" + strings.Repeat("x", 2000)} {
		if _, status := b.stream(t, page); status != http.StatusBadRequest {
			t.Errorf("%q: status %d", page, status)
		}
	}
	for _, page := range []string{"/queues/", "/static/live.js", "/live?page=/", "/breakers/force?do=open&name=x"} {
		events, _ := b.stream(t, page)
		if e := next(t, events); strings.Contains(e.HTML, "<form") || e.HTML != "" && !strings.Contains(e.HTML, "There is no such page here.") {
			t.Errorf("%s is followed: %+v", page, e)
		}
	}
}
