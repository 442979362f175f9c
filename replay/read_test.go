package replay

import (
	"bytes"
	"compress/gzip"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// read reads one log and returns its records with everything that was said of it.
func read(t *testing.T, text string) (all []Record, said []string, err error) {
	t.Helper()
	r := NewReader(func(r *Record) error { all = append(all, *r); return nil })
	err = r.Read("log", strings.NewReader(text))
	if err == nil {
		err = r.Check()
	}
	for _, w := range r.Warnings() {
		said = append(said, w.String())
	}
	return all, said, err
}

// TestVersion1Loads: a log of the first version, as it was written then. The file
// must not change.
func TestVersion1Loads(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/v1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	all, said, err := read(t, string(text))
	if err != nil || len(all) != 5 {
		t.Fatalf("%d records, error %v", len(all), err)
	}
	if len(said) != 1 || said[0] != "log:4: 12 records of worker night-1-4711-a1b2c3 are missing: they were dropped while Redis was away or slow" {
		t.Errorf("said: %q", said)
	}
	if c := all[0]; c.Cost != 1_250_000 || c.Cached != 30 || c.FirstTokenMS != 250 || !c.Time.Equal(time.UnixMilli(1796072400123)) {
		t.Errorf("call: %+v", c)
	}
}

const call1 = `{"v":1,"type":"call","time":"2026-11-30T21:00:00Z","worker":"w","seq":1,"batch":"b","line":1,"model":"m","kind":"ok"}` + "\n"

// TestOddLogs: each mistake is named, with its place, as a warning or an error.
func TestOddLogs(t *testing.T) {
	t.Parallel()
	change := func(seq, old, new string) string {
		return strings.Replace(strings.Replace(call1, `"seq":1`, `"seq":`+seq, 1), old, new, 1)
	}
	call2 := change("2", "", "")
	for _, c := range []struct{ name, text, said, err string }{
		{"empty", "", "", "it is empty"},
		{"blank lines and a mark", "\n" + call1 + "\r\n", "", ""},
		{"a byte order mark", "\ufeff" + call1, "", ""},
		{"not text", "\x7fELF\x02\x01", "log:1: the last line is torn and left out", "it has no record; first: log:1: the last line is torn"},
		{"before all time", call1 + change("2", "2026", "1026") + change("3", "", ""), "log:2: left out: a time before 1970 or after 2200", ""},
		{"after all time", call1 + change("2", "2026", "9999") + change("3", "", ""), "log:2: left out: a time before 1970 or after 2200", ""},
		{"torn last line", call1 + call2[:40], "log:2: the last line is torn and left out", ""},
		{"torn line between", call1 + call2[:40] + "\n" + call2, "", "log:2: it is no record"},
		{"no record", "hello\n", "", "log:1: it is no record"},
		{"no time", call1 + change("2", `"time":"2026-11-30T21:00:00Z",`, "") + change("3", "", ""), "log:2: left out: no time", ""},
		{"no model", call1 + change("2", `"model":"m",`, "") + change("3", "", ""), "log:2: left out: no model", ""},
		{"no line", call1 + change("2", `"line":1,`, "") + change("3", "", ""), "log:2: left out: no batch or line", ""},
		{"unknown kind", call1 + change("2", `"ok"`, `"meh"`) + change("3", "", ""), `log:2: left out: unknown kind "meh"`, ""},
		{"unknown type", call1 + change("2", `"call"`, `"tale"`) + change("3", "", ""), `log:2: left out: unknown type "tale"`, ""},
		{"negative", call1 + change("2", `"kind"`, `"latency_ms":-5,"kind"`) + change("3", "", ""), "log:2: left out: a figure below 0", ""},
		{"no reason", call1 + change("2", `"call"`, `"deferral"`) + change("3", "", ""), "log:2: left out: no reason", ""},
		{"twice", call1 + call2 + call2 + call1, "log:3: left out: the record was read before (and 1 more)", ""},
		{"later version", call1 + change("2", `"v":1`, `"v":2`), "", "log:2: a later version wrote it (v 2"},
		{"mostly unusable", call1 + change("2", `"ok"`, `"meh"`), `log:2: left out: unknown kind "meh"`, "1 of 2 records cannot be used"},
		{"disorder", call1 + change("2", `21:00`, `20:50`), "log:2: records are not in the order of time; they were sorted", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, said, err := read(t, c.text)
			if got := strings.Join(said, "\n"); got != c.said {
				t.Errorf("said %q, want %q", got, c.said)
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

func TestCompressedLog(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(strings.Repeat(" ", 1000) + call1))
	_ = z.Close()
	whole := b.String()
	if all, said, err := read(t, whole); len(all) != 1 || len(said) != 0 || err != nil {
		t.Errorf("%d records, said %q, error %v", len(all), said, err)
	}
	if all, said, err := read(t, whole[:len(whole)-6]); len(all) != 1 || len(said) != 1 || err != nil {
		t.Errorf("cut off: %d records, said %q, error %v", len(all), said, err)
	}
}

// TestSpans: whatever the order, a number is new once.
func TestSpans(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s spans
		seen := map[int64]bool{}
		for _, n := range rapid.SliceOf(rapid.Int64Range(1, 30)).Draw(t, "numbers") {
			if s.add(n) == seen[n] {
				t.Fatalf("%d: seen %v, spans %v", n, seen[n], s.all)
			}
			seen[n] = true
		}
	})
}

func FuzzRead(f *testing.F) {
	text, _ := os.ReadFile("testdata/v1.jsonl")
	f.Add(text)
	f.Add([]byte(call1))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := NewReader(func(r *Record) error { return r.check() })
		_ = r.Read("log", bytes.NewReader(text)) // it returns, and gives on no record that does not pass its check
		_ = r.Check()
	})
}
