package batch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nightshift/internal/hours"
	"nightshift/limit"
	"nightshift/provider"
)

var evening = time.Date(2026, 11, 30, 22, 0, 0, 0, time.UTC)

// work is a batch of n lines for one model, of 800 and 200 tokens each.
func work(n int64) Work {
	s := Sum{n, 800 * n, 200 * n, provider.Dollars(0.01) * provider.USD(n)}
	return Work{Lines: n, Rungs: []RungWork{{Model: "a/m", Priced: true, First: s, All: s}}}
}

func paced(p limit.Pace) Outlook {
	return Outlook{Now: evening, Paces: map[string]limit.Pace{"a/m": p}}
}

func TestForesee(t *testing.T) {
	tests := []struct {
		name string
		o    Outlook
		want string // the bounds; the first is when it is done
	}{
		{"nothing is known", paced(limit.Pace{}), ""},
		{"the configured rate", paced(limit.Pace{Limits: limit.Limits{RPM: 60}}), "requests 60 configured 600"},
		{"a learned rate", paced(limit.Pace{Limits: limit.Limits{RPM: 60}, LearnedRate: 30_000}), "requests 30 learned 1200"},
		{"a rate of headers", paced(limit.Pace{ToldRate: 30_000, LearnedRate: 90_000}), "requests 30 told 1200"},
		{"tokens of headers", paced(limit.Pace{Limits: limit.Limits{TPM: 100_000}, ToldTPM: 10_000}), "tokens 10000 told 3600"},
		{"a start is no limit", paced(limit.Pace{Starting: true, Concurrency: 4, Rate: 1000, Latency: time.Second}), ""},
		{"its last call takes its time", paced(limit.Pace{LearnedRate: 600_000, Latency: 5 * time.Second}), "requests 600 learned 65"},
		{"it is parked", paced(limit.Pace{LearnedRate: 600_000, Parked: 30 * time.Second}), "requests 600 learned 90"},
		{"tokens", paced(limit.Pace{Limits: limit.Limits{RPM: 600, TPM: 10_000}}), "tokens 10000 configured 3600, requests 600 configured 60"},
		{"calls in flight", paced(limit.Pace{LearnedConcurrency: 4, Latency: 2 * time.Second}), "concurrency 4 learned 300"},
		{"of an unknown latency say nothing", paced(limit.Pace{Limits: limit.Limits{Concurrency: 4}}), ""},
		{"slots", Outlook{Now: evening, Slots: 10, Paces: map[string]limit.Pace{"a/m": {Latency: 3 * time.Second}}}, "slots 10 measured 180"},
		{"more slots than lines", Outlook{Now: evening, Slots: 10_000, Paces: map[string]limit.Pace{"a/m": {Latency: 3 * time.Second}}}, "slots 10000 measured 3"},
		{"slots of an unknown latency", Outlook{Now: evening, Slots: 10, Paces: map[string]limit.Pace{"a/m": {}}}, ""},
		{
			"what is ahead goes first",
			Outlook{Now: evening, Ahead: 1200, Paces: map[string]limit.Pace{"a/m": {LearnedRate: 60_000}}},
			"requests 60 learned 1800",
		},
		{
			"the guard",
			Outlook{Now: evening, Guard: GuardOutlook{Calls: Hourly{Limit: 200}, Global: Hourly{Limit: 300}}},
			"guard 200 configured 7320, global_guard 300 configured 3660",
		},
		{"for ever", paced(limit.Pace{LearnedRate: 1, Parked: longest}), fmt.Sprintf("requests 0.001 learned %d", int64(longest.Seconds()))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := Foresee(work(600), tt.o)
			got := ""
			for i, b := range f.Bounds {
				if i > 0 {
					got += ", "
				}
				got += fmt.Sprintf("%s %v %s %d", b.What, b.Limit, b.Source, b.Seconds)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if known := f.FinishAt != nil; known != (tt.want != "") || known && f.FinishAt.Sub(evening) != time.Duration(f.Bounds[0].Seconds)*time.Second {
				t.Errorf("done at %v", f.FinishAt)
			}
			if f.InputTokens != 480_000 || f.OutputTokens != 120_000 || f.CostUSD != provider.Dollars(6) {
				t.Errorf("%d tokens in, %d out, $%v", f.InputTokens, f.OutputTokens, f.CostUSD)
			}
		})
	}
}

// Lines that start at different rungs, and one model on two of them.
func TestForeseeOfALadder(t *testing.T) {
	f := Foresee(Work{Lines: 100, Rungs: []RungWork{
		{Model: "a/m", Priced: true, First: Sum{80, 8000, 800, 80}, All: Sum{80, 8000, 800, 80}},
		{Model: "b/m", First: Sum{15, 1500, 150, 0}, All: Sum{90, 9000, 900, 0}, TooLarge: 5},
		{Model: "a/m", Priced: true, First: Sum{5, 500, 50, 2}, All: Sum{100, 10000, 1000, 40}},
		{Model: "nightshift/text", Text: true, Priced: true, All: Sum{Lines: 100}},
	}}, Outlook{Now: evening, Paces: map[string]limit.Pace{"a/m": {LearnedRate: 85_000}, "b/m": {LearnedRate: 1_000}}})
	if f.CostUSD != 82 || f.InputTokens != 10_000 || len(f.Unpriced) != 1 || f.Unpriced[0] != "b/m" {
		t.Errorf("got %+v", f)
	}
	if len(f.Bounds) != 2 || f.Bounds[0].Model != "b/m" || f.Bounds[0].Seconds != 15*60 || f.Bounds[1].Seconds != 60 {
		t.Errorf("bounds %+v", f.Bounds)
	}
	if r := f.Rungs; len(r) != 4 || r[1].Lines != 95 || r[1].TooLarge != 5 || r[1].CostUSD != nil || *r[2].CostUSD != 40 || *r[3].CostUSD != 0 {
		t.Errorf("rungs %+v", f.Rungs)
	}
}

func TestHourlyArithmetic(t *testing.T) {
	tests := []struct {
		h    Hourly
		n    int64
		want time.Duration
	}{
		{Hourly{}, 1_000_000, 0}, // no limit
		{Hourly{Limit: 1000}, 1000, 0},
		{Hourly{Limit: 1000}, 1001, 61 * time.Minute},     // as long as a call may count
		{Hourly{Limit: 1000}, 9000, 8 * 61 * time.Minute}, // 1,000 at once and then each window
		{Hourly{Limit: 1000, Used: 1000}, 500, 31 * time.Minute},
		{Hourly{Limit: 1000, Used: 1000}, 9000, 9 * 61 * time.Minute},
		{Hourly{Limit: 1000, Used: 400}, 600, 0},
		{Hourly{Limit: 1000, Used: 400}, 601, time.Minute},
		{Hourly{Limit: 1000, Used: 400}, 800, 31 * time.Minute},
		{Hourly{Limit: 1000, Used: 400}, 1001, 61 * time.Minute},
		{Hourly{Limit: 1000, Used: 5000}, 1000, 61 * time.Minute}, // the limit was lowered
		{Hourly{Limit: 1}, 1 << 60, longest},
	}
	for _, tt := range tests {
		if got := tt.h.until(tt.n); got != tt.want {
			t.Errorf("%d calls of %+v after %v, want %v", tt.n, tt.h, got, tt.want)
		}
	}
}

func TestHourlyAgreesWithItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 100_000).Draw(t, "limit")
		h := Hourly{Limit: limit, Used: rapid.Int64Range(0, 2*limit).Draw(t, "used")}
		n := rapid.Int64Range(0, 20*limit).Draw(t, "n")
		d := h.until(n)
		if got := h.passes(d); got < n {
			t.Fatalf("%d calls of %+v need %v, in which %d pass", n, h, d, got)
		}
		if n > 0 && d > 0 && h.passes(d-1) >= n {
			t.Fatalf("%d calls of %+v need %v, but pass sooner", n, h, d)
		}
	})
}

func TestGuardJudgesByTheDeadline(t *testing.T) {
	tests := []struct {
		name  string
		g     GuardOutlook
		after time.Duration // of the deadline
		want  Judgement
		need  int64
	}{
		{"no deadline", GuardOutlook{Calls: Hourly{Limit: 100}}, 0, InTime, 0},
		{"at once", GuardOutlook{Calls: Hourly{Limit: 9000}}, time.Minute, InTime, 0},
		{"ample", GuardOutlook{Calls: Hourly{Limit: 1000}}, 24 * time.Hour, InTime, 0},
		{"just", GuardOutlook{Calls: Hourly{Limit: 1000}}, 8 * 61 * time.Minute, Tight, 0},
		{"a minute less", GuardOutlook{Calls: Hourly{Limit: 1000}}, 8*61*time.Minute - time.Minute, Late, 1000},
		{"late", GuardOutlook{Calls: Hourly{Limit: 1000}}, 3 * time.Hour, Late, 6000},
		{"by others", GuardOutlook{Calls: Hourly{Limit: 1000, Others: 6000}}, 8 * time.Hour, Late, 7000},
		{"the whole batch by others", GuardOutlook{Calls: Hourly{Limit: 1000, Others: 60_000}}, 8 * time.Hour, Late, 9000},
		{"an allowance for all", GuardOutlook{Calls: Hourly{Limit: 1000, Others: 60_000}, Allowance: 9000}, 8 * time.Hour, InTime, 0},
		{"an allowance that is too small", GuardOutlook{Calls: Hourly{Limit: 1000}, Allowance: 100}, 3 * time.Hour, Late, 6000},
		{"of all producers", GuardOutlook{Global: Hourly{Limit: 1000}, Allowance: 9000}, 3 * time.Hour, Late, 0},
		{"dollars", GuardOutlook{USD: Hourly{Limit: int64(provider.Dollars(10))}}, 3 * time.Hour, Late, 0}, // the batch takes $90
		{"dollars and calls", GuardOutlook{Calls: Hourly{Limit: 1000}, USD: Hourly{Limit: int64(provider.Dollars(60))}}, 3 * time.Hour, Late, 6000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.g.start = evening
			if tt.after > 0 {
				tt.g.Deadline = evening.Add(tt.after)
			}
			f := tt.g.foresee(9000, provider.Dollars(90))
			if f.Verdict != tt.want || f.Needed != tt.need {
				t.Errorf("got %s, %d needed; want %s and %d", f.Verdict, f.Needed, tt.want, tt.need)
			}
			if tt.g.Allowance = f.Needed; f.Needed > 0 && tt.g.foresee(9000, provider.Dollars(90)).Verdict == Late {
				t.Error("the allowance that is named is too small")
			}
		})
	}
	if (GuardOutlook{}).foresee(5, 5) != nil {
		t.Error("a forecast of a guard without limits")
	}
}

// What the arithmetic says holds at the guard itself, at whatever second of a
// minute a batch begins.
func TestHourlyAgreesWithTheGuard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.Int64Range(1, 5).Draw(t, "limit")
		now := evening.Add(time.Duration(rapid.IntRange(0, 59_999).Draw(t, "ms")) * time.Millisecond)
		guard := limit.NewGuardMemory(limit.GuardOptions{
			Limits: func(string) limit.GuardLimits { return limit.GuardLimits{Calls: l} },
		}, func() time.Time { return now })
		h, n := Hourly{Limit: l}, rapid.Int64Range(1, 4*l).Draw(t, "n")
		began := now
		for i := range n {
			for {
				var over *limit.OverError
				err := guard.Reserve(context.Background(), limit.Charge{Producer: "ann", Ticket: fmt.Sprint(i)})
				if err == nil {
					break
				}
				if !errors.As(err, &over) {
					t.Fatal(err)
				}
				now = now.Add(over.Wait)
			}
			if d := h.until(i + 1); now.Sub(began) > d {
				t.Fatalf("call %d of a limit of %d went after %v, it was to be %v", i+1, l, now.Sub(began), d)
			}
		}
	})
}

// Eight hours of work of a batch that may begin at midnight, in a queue that is
// open from 22:00 to 6:00.
func TestForeseeBySchedule(t *testing.T) {
	nights, err := hours.Parse("22:00-06:00", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		h         hours.Hours
		notBefore time.Time
		start     time.Time
		end       time.Time
		verdict   Judgement
	}{
		"at once":       {end: noon.Add(488 * time.Minute), verdict: InTime},
		"at midnight":   {notBefore: noon.Add(12 * time.Hour), start: noon.Add(12 * time.Hour), end: noon.Add(12*time.Hour + 488*time.Minute), verdict: Late},
		"nights":        {h: nights, start: noon.Add(10 * time.Hour), end: noon.Add(34*time.Hour + 8*time.Minute), verdict: Late},
		"both":          {h: nights, notBefore: noon.Add(12 * time.Hour), start: noon.Add(12 * time.Hour), end: noon.Add(36*time.Hour + 8*time.Minute), verdict: Late},
		"it has passed": {notBefore: noon.Add(-time.Hour), end: noon.Add(488 * time.Minute), verdict: InTime},
	} {
		t.Run(name, func(t *testing.T) {
			f := Foresee(work(9000), Outlook{Now: noon, NotBefore: c.notBefore, Hours: c.h, Guard: GuardOutlook{
				Calls: Hourly{Limit: 1000}, Deadline: noon.Add(20 * time.Hour),
			}})
			if !f.FinishAt.Equal(c.end) || f.Guard.Verdict != c.verdict || (f.StartAt == nil) != c.start.IsZero() || f.StartAt != nil && !f.StartAt.Equal(c.start) {
				t.Errorf("begins %v, ends %v, %s", f.StartAt, f.FinishAt, f.Guard.Verdict)
			}
			if f.LinesBy(noon) != 0 || !c.start.IsZero() && f.LinesBy(c.start) != 0 || f.LinesBy(c.end) != 9000 {
				t.Errorf("%d lines were to be done at the start", f.LinesBy(c.start))
			}
		})
	}
}
