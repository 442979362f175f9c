package main

import (
	"bytes"
	"io"
	"testing"
	"time"

	"nightshift/internal/cli"
	"nightshift/limit"
)

// TestGuardAsJSON: the fields that the contract names and no others, with null
// for a time that is none, and USD to the nano-dollar.
func TestGuardAsJSON(t *testing.T) {
	var out bytes.Buffer
	p := &program{cli.New("worker", nil, &out, io.Discard)}
	err := p.printGuards([]limit.GuardStatus{
		{
			Producer: "anna", Open: true, Calls: 5000, USD: 12_500_000_001, Limits: limit.GuardLimits{Calls: 5000, USD: 20e9},
			Until: time.Date(2026, 12, 1, 2, 14, 0, 0, time.UTC), Waiting: 31, Released: time.Unix(1, 0), ReleasedBy: "bea",
		},
		{Producer: "system", Calls: 2},
	}, true)
	want := `[
  {
    "producer": "anna",
    "state": "open",
    "calls": 5000,
    "calls_per_hour": 5000,
    "usd": 12.500000001,
    "usd_per_hour": 20,
    "until": "2026-12-01T02:14:00Z"
  },
  {
    "producer": "system",
    "state": "closed",
    "calls": 2,
    "calls_per_hour": 0,
    "usd": 0,
    "usd_per_hour": 0,
    "until": null
  }
]
`
	if err != nil || out.String() != want {
		t.Errorf("error %v, printed:\n%s", err, &out)
	}
}

// TestNoGuardAsJSON: an empty list is one.
func TestNoGuardAsJSON(t *testing.T) {
	var out bytes.Buffer
	p := &program{cli.New("worker", nil, &out, io.Discard)}
	if err := p.printGuards(nil, true); err != nil || out.String() != "[]\n" {
		t.Errorf("error %v, printed: %s", err, &out)
	}
}
