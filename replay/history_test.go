package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/provider"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// logOf is a log of calls to one model, one a second; each letter is a line's: a is
// answered, x fails, t is silent for its limit, r is refused by a rate limit, - is a
// second without a call.
func logOf(t *testing.T, calls string) *Collector {
	t.Helper()
	c := NewCollector()
	for i, what := range calls {
		r := Record{
			V: 1, Type: TypeCall, Time: noon.Add(time.Duration(i) * time.Second), Worker: "w", Seq: int64(i + 1), Queue: "q", Producer: "anna",
			Batch: "b", Line: int64(i + 1), Model: "a/one", LatencyMS: 200, Kind: provider.OK, Input: 100, Output: 20,
		}
		switch what {
		case '-':
			continue
		case 'x':
			r.Kind, r.Input, r.Output = provider.Unavailable, 0, 0
		case 't':
			r.Kind, r.LatencyMS, r.Input, r.Output = provider.Timeout, 30_000, 0, 0
		case 'r':
			r.Kind, r.RetryAfterMS, r.Input, r.Output = provider.RateLimited, 2000, 0, 0
		}
		if err := c.Add(&r); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func keyOf(models ...string) (keys []breaker.Key) {
	for _, m := range models {
		keys = append(keys, breaker.Key{Provider: strings.Split(m, "/")[0], Model: m})
	}
	return keys
}

// TestOutagesOfALog: from a failure to two answers in a row, with five failures or
// more that are at least two thirds.
func TestOutagesOfALog(t *testing.T) {
	t.Parallel()
	for calls, want := range map[string]string{
		"aaaaaaaa":                 "",
		"aaxxxxaa":                 "", // four failures are too few
		"aaxxxxxaa":                "2-7",
		"aaxxxxx":                  "2-6.2", // it lasts until the last failure's end
		"aaxxxaxxxaxxaa":           "2-12",  // single answers do not end it
		"aaxaxaxaxaxaxaaa":         "",      // it is flaky, not out
		"xxxxxaaaaaxxxxxxaa":       "0-5 10-16",
		"aa-xxxxx-----------x--aa": "3-22", // nobody knows what was between
		"aarrrrrrrraa":             "",     // a limit is no outage
	} {
		_, m, _, err := logOf(t, calls).Build(keyOf("a/one"), ArriveBatch)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range m.Outages() {
			got = append(got, fmt.Sprintf("%g-%g", o.From.Sub(noon).Seconds(), o.To.Sub(noon).Seconds()))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: outages %s, not %s", calls, s, want)
		}
	}
}

// shares are those of the kinds that the model of a log gives calls at a time.
func shares(m *Model, model string, at time.Time) (all map[provider.Kind]float64, last outcome) {
	const n = 2000
	all = map[provider.Kind]float64{}
	w := m.world(1, false)
	for i := range n {
		last = w.outcome(model, at, newDraw(1, uint64(i)), callSize{100, 0})
		all[last.kind] += 1.0 / n
	}
	return all, last
}

// TestModelOfALog: a call meets what calls met in its minute; in an outage, what they
// met in that. A minute without a call is as the one before.
func TestModelOfALog(t *testing.T) {
	t.Parallel()
	flaky := strings.Repeat("aaax", 15)                                                   // 12:00
	outage := strings.Repeat("a", 20) + strings.Repeat("t", 20) + strings.Repeat("a", 20) // 12:01, out from :20 to :40
	limited := strings.Repeat("aarr", 15)                                                 // 12:02
	_, m, said, err := logOf(t, flaky+outage+limited).Build(keyOf("a/one", "a/new", "b/new"), ArriveBatch)
	if err != nil {
		t.Fatal(err)
	}
	within := func(what string, got, want float64) {
		t.Helper()
		if got < want-.05 || got > want+.05 {
			t.Errorf("%s: %.2f, not %.2f", what, got, want)
		}
	}
	got, _ := shares(m, "a/one", noon.Add(10*time.Second))
	within("failures in a flaky minute", got[provider.Unavailable], .25)
	got, last := shares(m, "a/one", noon.Add(90*time.Second))
	within("timeouts in the outage", got[provider.Timeout], 1)
	if !last.hangs {
		t.Error("a timeout of the log does not hang")
	}
	got, last = shares(m, "a/one", noon.Add(105*time.Second))
	within("answers after the outage", got[provider.OK], 1)
	if last.latency != 200*time.Millisecond || last.size.output != 20 || last.guessed {
		t.Errorf("an answer: %+v", last)
	}
	got, _ = shares(m, "a/one", noon.Add(130*time.Second))
	within("answers in a minute that took 30", got[provider.OK], 30.0/2000)
	got, last = shares(m, "a/one", noon.Add(30*time.Minute))
	if !last.guessed || got[provider.RateLimited] == 0 {
		t.Errorf("long after the last call: %v, %+v", got, last)
	}
	got, last = shares(m, "a/new", noon)
	within("answers of a model that the log has not", got[provider.OK], 1)
	if !last.guessed || len(said) != 3 || !strings.Contains(said[0], "the log has no call of a/new: it is taken to answer as a/one did") {
		t.Errorf("said %q; %+v", said, last)
	}
	w := m.world(1, true)
	if o := w.outcome("a/one", noon.Add(90*time.Second), newDraw(1), callSize{}); o.kind != provider.OK {
		t.Errorf("the ideal fails: %+v", o)
	}
}

// TestCollector: batches, their lines, and when they come; generations are batches of
// their own, and what is not known of a line is the average of the others.
func TestCollector(t *testing.T) {
	t.Parallel()
	add := func(c *Collector, batch string, line int64, generation int, at int, worker string, in, out int64) {
		r := Record{Type: TypeCall, Time: noon.Add(time.Duration(at) * time.Second), Worker: worker, Batch: batch, Line: line, Generation: generation, Queue: "q", Producer: "anna", Model: "a/one", Kind: provider.OK, Input: in, Output: out}
		if in == 0 {
			r.Kind = provider.Unavailable
		}
		if err := c.Add(&r); err != nil {
			t.Fatal(err)
		}
	}
	c := NewCollector()
	add(c, "b", 3, 0, 9, "one", 0, 0)
	add(c, "b", 1, 0, 5, "one", 100, 10)
	add(c, "b", 2, 0, 7, "two", 300, 30)
	add(c, "a", 1, 0, 6, "one", 10, 1)
	add(c, "b", 1, 1, 8, "two", 100, 10)
	if err := c.Add(&Record{Type: TypeGap, Worker: "three", Time: noon}); err != nil {
		t.Fatal(err)
	}
	for how, want := range map[Arrivals]string{
		ArriveBatch: "b@5[1:100/10 2:300/30 3:200/20] a@6[1:10/1] b.1@8[1:100/10] ",
		ArriveLine:  "b:1@5[1:100/10] a:1@6[1:10/1] b:2@7[2:300/30] b.1:1@8[1:100/10] b:3@9[3:200/20] ",
	} {
		d := *c
		d.batches = map[string]*loggedBatch{}
		for id, b := range c.batches {
			copied := *b
			copied.Lines = nil
			d.batches[id] = &copied
		}
		d.history = &history{models: map[string]*modelHistory{"a/one": {name: "a/one", minutes: newMinutes[minute](), whole: minute{n: 1, kinds: []kindOf{{kind: provider.OK, n: 1, seen: []sample{{}}}}}}}}
		traffic, _, said, err := d.Build(keyOf("a/one"), how)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, b := range traffic.Batches {
			var lines []string
			for _, l := range b.Lines {
				lines = append(lines, fmt.Sprintf("%d:%d/%d", l.Number, l.Input, l.Output))
			}
			got += fmt.Sprintf("%s@%g%v ", b.ID, b.At.Sub(noon).Seconds(), lines)
		}
		if got != want || traffic.Workers != 2 {
			t.Errorf("%s: %s by %d workers, not %s", how, got, traffic.Workers, want)
		}
		if len(said) != 1 || !strings.HasPrefix(said[0], "1 lines have no answer in the log") {
			t.Errorf("said %q", said)
		}
	}
	probes := NewCollector()
	if err := probes.Add(&Record{Type: TypeCall, Worker: "one", Time: noon, Model: "a/one", Kind: provider.OK}); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := probes.Build(nil, ArriveBatch); err == nil || !strings.Contains(err.Error(), "no line to replay") {
		t.Errorf("of probes alone: %v", err)
	}
	if _, _, _, err := NewCollector().Build(nil, ArriveBatch); err == nil || err.Error() != "read call log: it has no calls" {
		t.Errorf("of nothing: %v", err)
	}
}
