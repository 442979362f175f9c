package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"nightshift/breaker"
	"nightshift/ladder"
	"nightshift/provider"
)

// anyRecord draws a record as a log can have it.
func anyRecord(t *rapid.T) (r Record) {
	name := func(what string) string { return rapid.StringMatching(`[a-zA-Z0-9 /@.äß日-]{0,8}`).Draw(t, what) }
	n := func(what string) int64 { return rapid.Int64Range(0, 1<<40).Draw(t, what) }
	r = Record{
		V: 1, Type: Type(name("type")), Worker: name("worker"), Seq: n("seq"), Queue: name("queue"), Producer: name("producer"), Batch: name("batch"),
		Line: n("line"), Generation: int(n("generation")), Ladder: name("ladder"), Rung: int(n("rung")), Model: name("model"), Provider: name("provider"),
		Region: name("region"), Purpose: ladder.Purpose(name("purpose")), Kind: provider.Kind(name("kind")), Status: int(n("status")), LatencyMS: n("latency"),
		FirstTokenMS: n("first"), Input: n("input"), Cached: n("cached"), Output: n("output"), Cost: provider.USD(rapid.Int64Range(0, 20_000_000_000_000).Draw(t, "cost")),
		Breaker: breaker.State(name("breaker")), Probe: rapid.Bool().Draw(t, "probe"), Scope: breaker.Scope(name("scope")), RetryAfterMS: n("retry"),
		Reason: name("reason"), Dropped: n("dropped"),
	}
	r.Time = time.Unix(0, rapid.Int64Range(0, 1<<62).Draw(t, "time")).UTC()
	if rapid.Bool().Draw(t, "until") {
		r.Until = time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "end")).UTC()
	}
	return r
}

// agree holds the decoder to encoding/json.
func agree(t interface{ Fatalf(string, ...any) }, text []byte) {
	var d decoder
	var got, want Record
	err, wrong := d.record(text, &got), json.Unmarshal(text, &want)
	if fmt.Sprint(err) != fmt.Sprint(wrong) || wrong == nil && got != want {
		t.Fatalf("%q:\n%+v, error %v\nnot\n%+v, error %v", text, got, err, want, wrong)
	}
}

// TestDecoderIsThatOfJSON: of records, and of those with a few bytes changed, the
// decoder makes what encoding/json does.
func TestDecoderIsThatOfJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord(t)
		text, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		var d decoder
		var got Record
		if r.Cost < 10_000_000_000_000 && (!d.plain(text, &got) || got != r) {
			t.Fatalf("%s is not read as it is: %+v", text, got)
		}
		agree(t, text)
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			i := rapid.IntRange(0, len(text)-1).Draw(t, "place")
			with := []byte(rapid.SampledFrom([]string{"", `"`, `\`, " ", ",", ":", "0", "01", "-1", "1.5", "1e3", ".", "null", "{}", "[1]", "}", "é", "\xff", "\x01", "\n", "Z", "T", "9"}).Draw(t, "with"))
			text = bytes.Join([][]byte{text[:i], text[i+rapid.IntRange(0, 1).Draw(t, "cut"):]}, with)
			agree(t, text)
			if len(text) == 0 {
				return
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(strings.TrimSpace(call1)))
	f.Add([]byte(`{"v":1,"TYPE":"call","time":"2026-02-30T21:00:00.5Z","cost_usd":0.000000001,"probe":true,"until":"2026-11-30T21:00:00+02:00","line":01}`))
	f.Fuzz(func(t *testing.T, text []byte) { agree(t, text) })
}

// long is a log of several parts, of n records.
func long(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Replace(call1, `"seq":1`, fmt.Sprintf(`"seq":%d,"status":%d`, i+1, 200), 1))
		if i%100 == 50 {
			b.WriteString("\r\n")
		}
	}
	return b.String()
}

// TestPartsOfALog: where a log is cut for decoding shows nowhere: every record comes
// once and in order, and places are those of the file.
func TestPartsOfALog(t *testing.T) {
	t.Parallel()
	const n = 6000
	text := long(n) // 900 KB
	if len(text) < 5*partSize {
		t.Fatalf("%d bytes are too few parts", len(text))
	}
	lines := strings.Count(text, "\n")
	errOdd := errors.New("odd")
	for _, c := range []struct {
		name    string
		in      io.Reader
		records int
		err     string
	}{
		{"whole", strings.NewReader(text), n, ""},
		{"in halves", iotest.HalfReader(strings.NewReader(text)), n, ""},
		{"with its end", iotest.DataErrReader(strings.NewReader(text)), n, ""},
		{"no record far in", strings.NewReader(text + "hello\n" + call1), n, fmt.Sprintf("log:%d: it is no record", lines+1)},
		{"a long line", strings.NewReader(text + strings.Repeat("x", maxRecord) + "\n"), n, fmt.Sprintf("log:%d: a line of more than", lines+1)},
		{"a long line without an end", strings.NewReader(text + strings.Repeat(" ", 5<<20)), n, fmt.Sprintf("log:%d: a line of more than", lines+1)},
		{"the reader fails", io.MultiReader(strings.NewReader(text), iotest.ErrReader(errOdd)), n, "read call log log: odd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			next := int64(1)
			r := NewReader(func(r *Record) error {
				if r.Seq != next || r.Status != 200 {
					return fmt.Errorf("record %d, not %d", r.Seq, next)
				}
				next++
				return nil
			})
			err := r.Read("log", c.in)
			if r.Records() != c.records || c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%d records of %d, error %v, not %q", r.Records(), c.records, err, c.err)
			}
		})
	}
	_, said, err := read(t, text+call1[:50])
	if want := fmt.Sprintf("log:%d: the last line is torn and left out", lines+1); err != nil || len(said) != 1 || said[0] != want {
		t.Errorf("said %q, error %v; not %q", said, err, want)
	}
}

// TestLogOfASimulation: the log of what a simulation called is replayed to nearly what
// the simulation came to, and to every line of it.
func TestLogOfASimulation(t *testing.T) {
	t.Parallel()
	run, setup := someDays(t, 6*time.Hour)
	text, was := recordsOf(t, run)
	c := NewCollector()
	r := NewReader(c.Add)
	if err := r.Read("log", bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	traffic, model, _, err := c.Build(setup.Keys, ArriveBatch)
	if err != nil {
		t.Fatal(err)
	}
	run.Traffic, run.World = traffic, model
	is, err := Simulate(run)
	if err != nil {
		t.Fatal(err)
	}
	if r.Records() != was.Calls || is.Lines != was.Lines || is.Answered != was.Answered || len(is.Outages) != len(was.Outages) {
		t.Errorf("%d records of %d calls; %d of %d lines answered in %d outages, not %d of %d in %d",
			r.Records(), was.Calls, is.Answered, is.Lines, len(is.Outages), was.Answered, was.Lines, len(was.Outages))
	}
	for what, pair := range map[string][2]float64{
		"calls":                                 {float64(is.Calls), float64(was.Calls)},
		"wasted calls":                          {float64(is.Wasted), float64(was.Wasted)},
		"probes":                                {float64(is.Probes), float64(was.Probes)},
		"the mean time that a line held a slot": {is.HeldMean, was.HeldMean},
	} {
		if is, was := pair[0], pair[1]; is < .9*was || is > 1.1*was {
			t.Errorf("%s: %g in the replay of the log, %g before", what, is, was)
		}
	}
}
