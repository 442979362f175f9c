package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/internal/cli"
	"nightshift/provider"
)

// Lines and cost that were foreseen are those of the same moment.
func TestWhatWasForeseenByNow(t *testing.T) {
	p := &program{cli.New("enqueue", nil, io.Discard, io.Discard)}
	at := time.Date(2026, 11, 30, 22, 0, 0, 0, time.UTC)
	finish := at.Add(time.Hour)
	s := batch.Status{Total: 60, Outstanding: 40, CostUSD: provider.Dollars(1), CreatedAt: at, Forecast: &batch.Forecast{
		At: at, Lines: 60, CostUSD: provider.Dollars(6), FinishAt: &finish, Bounds: []batch.Bound{{What: batch.BoundGuard, Limit: 60}},
	}}
	for after, want := range map[time.Duration]string{
		0:                "by now 0 lines and $0 were foreseen, it is 20 and $1.00",
		time.Minute:      "by now 1 line and $0.1 were foreseen, it is 20 and $1.00",
		30 * time.Minute: "by now 30 lines and $3.00 were foreseen, it is 20 and $1.00",
	} {
		if got := p.foreseen(s, at.Add(after)); len(got) != 2 || got[1] != want {
			t.Errorf("after %v: %q, want %q", after, strings.Join(got, "; "), want)
		}
	}
}
