package door

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// maxBody bounds a request's body. The largest that a page sends is a form of
	// asynqmon's with the IDs of a page of tasks: 200 of about 120 bytes.
	maxBody = 64 << 10
	// maxRequests are answered at once, and maxStreams besides, which last.
	maxRequests = 64
	maxStreams  = 64
)

// enter takes a place, or answers that there is none. Streams have places of
// their own, so that open pages do not keep others out.
func (d *Door) enter(w http.ResponseWriter, r *http.Request) (leave func(), ok bool) {
	places := d.requests
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		places = d.streams
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, true
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the dashboard has too much to do; try again", http.StatusServiceUnavailable)
		return nil, false
	}
}

// Extend gives a response d more, from now, before the server ends it. A stream
// calls it before each write, with how long that may take: so it lives as long
// as its reader takes what it is sent.
func Extend(w http.ResponseWriter, d time.Duration) error {
	// The deadline for reading is not touched: net/http lifts it itself once the
	// request is read, and one set here would end the request's context.
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d)); err != nil {
		return fmt.Errorf("extend response: %w", err)
	}
	return nil
}
