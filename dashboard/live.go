package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"nightshift/dashboard/internal/door"
)

const (
	// liveEvery is how often a page that somebody looks at is read anew, once for
	// all who look at it.
	liveEvery = 2 * time.Second
	// liveSpan is how long one stream lasts; the browser then asks for the next.
	liveSpan = 10 * time.Minute
	// liveWrite bounds what a reader may take for one event.
	liveWrite = 10 * time.Second
	// maxLive bounds the streams of this process.
	maxLive = 48
)

// livePath is where the changes of the page come from that a request asks for.
func (d *Dashboard) livePath(r *http.Request) string {
	return d.door.Path("/live?page=" + url.QueryEscape(r.URL.RequestURI()))
}

// live are the streams of pages. A page is read for all who look at it at once.
type live struct {
	ended chan struct{} // closed by end
	once  sync.Once

	mu      sync.Mutex
	open    int
	watched map[string]*watched // by path and query
}

// watched is a page that somebody looks at.
type watched struct {
	readers int // guarded by live.mu

	mu   sync.Mutex
	at   time.Time // when it was rendered
	html string
	sum  [sha256.Size]byte // of what of it does not change by the clock alone
}

func newLive() *live { return &live{ended: make(chan struct{}), watched: map[string]*watched{}} }

// end ends all streams, and those to come.
func (l *live) end() { l.once.Do(func() { close(l.ended) }) }

// join has one more reader of a page; nil: there are too many streams.
func (l *live) join(page string) (w *watched, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= maxLive {
		return nil, nil
	}
	l.open++
	w = l.watched[page]
	if w == nil {
		w = &watched{}
		l.watched[page] = w
	}
	w.readers++
	return w, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open--
		if w.readers--; w.readers == 0 {
			delete(l.watched, page)
		}
	}
}

// serveLive is a stream of server-sent events: the inner part of a page whenever it
// changed, and the time in between.
func (d *Dashboard) serveLive(w http.ResponseWriter, r *http.Request) {
	page := r.URL.Query().Get("page")
	if u, err := url.Parse(page); err != nil || u.Host != "" || !strings.HasPrefix(page, "/") || len(page) > 1024 {
		http.Error(w, "the page to follow is not one of this dashboard", http.StatusBadRequest)
		return
	}
	seen, leave := d.live.join(page)
	if seen == nil {
		w.Header().Set("Retry-After", "15")
		http.Error(w, "too many pages are followed at this moment", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	d.follow(w, r, page, seen)
}

// follow sends events until somebody ends that.
func (d *Dashboard) follow(w http.ResponseWriter, r *http.Request, page string, seen *watched) {
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	life := time.NewTimer(liveSpan)
	defer life.Stop()
	var last [sha256.Size]byte
	for {
		html, sum := d.look(r.Context(), page, seen)
		now := d.opts.Now()
		event := liveEvent{Now: now.UnixMilli(), At: d.when(now)}
		if sum != last {
			event.HTML, last = html, sum
		}
		if event.send(w) != nil {
			return // the reader went away
		}
		select {
		case <-tick.C:
		case <-life.C:
			return
		case <-r.Context().Done():
			return
		case <-d.live.ended:
			return
		}
	}
}

// liveEvent is what a stream sends.
type liveEvent struct {
	Now  int64  `json:"now"`            // of the server, ms
	At   string `json:"at"`             // the same for people
	HTML string `json:"html,omitempty"` // of the page; absent: it is as it was
}

func (e liveEvent) send(w http.ResponseWriter) error {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil { // ends in a newline, and has no other
		return err
	}
	if err := door.Extend(w, liveWrite); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "retry: 2000\ndata: %s\n", body.Bytes()); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// byTheClock is what of a page changes by the clock alone: the browser counts that.
var byTheClock = regexp.MustCompile(`(data-at="[^"]*">)[^<]*<`)

// look returns the inner part of a page, which is rendered at most once in
// liveEvery.
func (d *Dashboard) look(ctx context.Context, page string, seen *watched) (html string, sum [sha256.Size]byte) {
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if now := time.Now(); seen.at.IsZero() || now.Sub(seen.at) >= liveEvery*3/4 {
		seen.html, seen.at = d.inner(ctx, page), now
		seen.sum = sha256.Sum256(byTheClock.ReplaceAll([]byte(seen.html), []byte("$1<")))
	}
	return seen.html, seen.sum
}

// inner renders the inner part of a page as a request for it would.
func (d *Dashboard) inner(ctx context.Context, page string) string {
	ctx = context.WithValue(context.WithoutCancel(ctx), fragmentKey{}, true) // others may wait for it too
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return ""
	}
	out := capture{header: http.Header{}, status: http.StatusOK}
	d.readers.ServeHTTP(&out, r)
	if out.header.Get("Content-Type") != "text/html; charset=utf-8" || out.header.Get("Location") != "" {
		return "" // an error, or a redirect
	}
	return out.body.String()
}
