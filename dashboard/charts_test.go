package dashboard_test

import (
	"encoding/xml"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"nightshift/dashboard"
	"nightshift/provider"
)

// Each chart is an SVG image of its own, in colours for light and dark, with a
// policy that lets it use nothing but its own styles.
func TestCharts(t *testing.T) {
	b := setup(t, withNight)
	b.fill()
	for path, want := range map[string]string{
		"/charts/lines": ">20:40<", "/charts/cost": ">$24.00<", "/charts/latency": ">anthropic/claude-sonnet-4-5<",
		"/charts/lines?theme=dark": "rgb(25,29,56)", "/charts/latency?theme=dark": "rgb(142,162,255)",
	} {
		got := b.get(t, path)
		if got.status != http.StatusOK || got.header.Get("Content-Type") != "image/svg+xml" || !strings.Contains(got.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: status %d, %v", path, got.status, got.header)
		}
		for d := xml.NewDecoder(strings.NewReader(got.body)); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s is no XML: %v", path, err)
			}
		}
		if !strings.Contains(got.body, want) {
			t.Errorf("%s lacks %s: %.900s", path, want, got.body)
		}
	}
	page := b.get(t, "/").body
	wantAll(t, page, `alt="Lines a minute since 20:10:00: now`, `alt="Cost since 20:10:00, added up: $`, `theme=dark`)
}

// Where nothing was noted, or one minute alone, there is no chart, and no broken
// image.
func TestChartsOfNothing(t *testing.T) {
	b := setup(t, nil)
	for _, minutes := range [][]dashboard.Minute{nil, {{At: now.Add(-time.Minute), Lines: 3}}} {
		b.minutes.list = minutes
		if page := b.get(t, "/").body; strings.Contains(page, "/charts/") {
			t.Error("there is a chart of nothing")
		}
		if got := b.get(t, "/charts/lines"); got.status != http.StatusNotFound {
			t.Errorf("status %d", got.status)
		}
	}
	if got := b.get(t, "/charts/latency"); got.status != http.StatusNotFound {
		t.Errorf("status %d", got.status)
	}
}

// A night of twelve hours has no more points than one can see, and loses nothing.
func TestNightAddsUp(t *testing.T) {
	b := setup(t, nil)
	for i := range 720 {
		b.minutes.list = append(b.minutes.list, dashboard.Minute{At: now.Add(time.Duration(i-720) * time.Minute), Lines: 10, Cost: provider.Dollars(0.1), Waste: provider.Dollars(0.01)})
	}
	wantAll(t, b.get(t, "/").body, "now 10, at most 10.", "added up: $72.00, of it wasted $7.20.")
}
