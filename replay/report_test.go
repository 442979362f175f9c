package replay

import (
	"testing"

	"nightshift/provider"
)

// TestWaits: half of the lines, and 95 in a hundred, waited no longer.
func TestWaits(t *testing.T) {
	t.Parallel()
	var ms []int32
	for i := range int32(100) {
		ms = append(ms, 1000*(100-i))
	}
	var f Figures
	if f.waits(ms); f.WaitP50 != 50 || f.WaitP95 != 95 || f.WaitMean != 50.5 {
		t.Errorf("p50 %g, p95 %g, mean %g", f.WaitP50, f.WaitP95, f.WaitMean)
	}
}

// TestRowsAreTheFigures: each row of the table and the page is the figure of its name.
func TestRowsAreTheFigures(t *testing.T) {
	t.Parallel()
	detect, recovered := 18.0, 19.0
	f := Figures{
		Lines: 1, Answered: 2, Failed: 100, Expired: 200, Unfinished: 300, Calls: 4, During: 5, Wasted: 6, Limited: 7, Probes: 8, Avoided: 9,
		Spent: provider.Dollars(10), WastedUSD: provider.Dollars(11), DeferralsLine: 12, Deferrals: 120, Retries: 13, Detect: &detect, Recover: &recovered,
		FalseTrips: 14, WaitP50: 15, WaitP95: 16, WaitMean: 160, HeldMean: 17, FirstMean: 20, Degraded: .21, Rungs: []RungFigures{{"a/one", 22, .23}},
		Batches: []BatchFigures{{Took: 24, Finished: noon}, {Took: 3, Finished: noon}},
	}
	want := map[string]float64{
		"lines": 1, "lines answered": 2, "lines failed, expired or unfinished": 600, "calls sent": 4, "of them while the model was out": 5,
		"of them wasted (failed)": 6, "of them refused (429)": 7, "of them probes": 8, "calls that a breaker kept away": 9, "USD spent": 10,
		"USD wasted": 11, "deferrals a line": 12, "retries spent": 13, "time to detect, s": 18, "time to recover, s": 19, "false trips": 14,
		"wait of a line, p50 s": 15, "wait of a line, p95 s": 16, "a line held a slot, mean s": 17,
		"of a line that came in an outage, its first attempt, s": 20, "last batch finished after, s (ideal)": 24, "degraded": 21, "answered by a/one": 23,
	}
	r := Report{Runs: []*Figures{&f}}
	rows := r.Rows()
	for _, row := range rows {
		if n, ok := want[row.What]; !ok || row.Numbers[0] != n {
			t.Errorf("%s: %g, not %g", row.What, row.Numbers[0], n)
		}
	}
	if len(rows) != len(want) {
		t.Errorf("%d rows, not %d", len(rows), len(want))
	}
}
