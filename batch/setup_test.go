package batch

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"nightshift/internal/redistest"
	"nightshift/provider"
)

func TestMain(m *testing.M) {
	if env := os.Getenv(racerEnv); env != "" {
		if err := racer(env); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// A line's life is longer than rapid's 30 steps; the flag is still the user's.
	if err := flag.Set("rapid.steps", "60"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// clock is a time that a test steps.
type clock struct{ t time.Time }

func (c *clock) now() time.Time       { return c.t }
func (c *clock) step(d time.Duration) { c.t = c.t.Add(d) }
func newClock() *clock                { return &clock{time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)} }

// bundle is a store on a Redis of its own.
type bundle struct {
	*Redis
	clock *clock
	rdb   redis.UniversalClient
}

func setup(tb testing.TB) *bundle {
	tb.Helper()
	return on(redistest.Client(tb))
}

// setupMini is setup on the embedded Redis.
func setupMini(tb testing.TB) *bundle {
	tb.Helper()
	m := miniredis.RunT(tb)
	c := redis.NewClient(&redis.Options{Addr: m.Addr()})
	tb.Cleanup(func() { _ = c.Close() })
	return on(c)
}

func on(c redis.UniversalClient) *bundle {
	k := newClock()
	return &bundle{NewRedis(c, Options{Now: k.now}), k, c}
}

// openAI is one input line.
func openAI(id string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o","messages":[{"role":"user","content":"question %s"}]}}`, id, id)
}

// jsonl is n input lines with the IDs r1, r2, …
func jsonl(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(openAI(fmt.Sprintf("r%d", i+1)) + "\n")
	}
	return b.String()
}

func reader(tb testing.TB, text string) *Reader {
	tb.Helper()
	r, err := OpenReader(strings.NewReader(text), "in.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// describe validates a text and describes a batch of it.
func describe(tb testing.TB, id, text string) Description {
	tb.Helper()
	sum, err := Validate(reader(tb, text))
	if err != nil {
		tb.Fatal(err)
	}
	return Description{ID: id, Producer: "ann", Queue: "overnight", Total: sum.Lines, Digest: sum.Digest}
}

// pack packs what a reader has, until the test ends.
func pack(tb testing.TB, r *Reader) *Packed {
	tb.Helper()
	p, err := Pack(tb.Context(), r)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// Submit packs what a reader has and submits it.
func (b *bundle) Submit(ctx context.Context, d Description, r *Reader, progress func(int64)) error {
	p, err := Pack(ctx, r)
	if err != nil {
		return err
	}
	defer p.Close()
	return b.Redis.Submit(ctx, d, p, Submission{Progress: progress})
}

// submit submits a text as a batch.
func (b *bundle) submit(tb testing.TB, id, text string, change ...func(*Description)) Description {
	tb.Helper()
	d := describe(tb, id, text)
	for _, f := range change {
		f(&d)
	}
	if err := b.Submit(tb.Context(), d, reader(tb, text), nil); err != nil {
		tb.Fatal(err)
	}
	return d
}

// release releases up to n lines.
func (b *bundle) release(tb testing.TB, id string, n int) []Ref {
	tb.Helper()
	refs, err := b.Release(tb.Context(), id, 1, n, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return refs
}

// begin begins a line and expects a verdict.
func (b *bundle) begin(tb testing.TB, ref Ref, token string, want Verdict) Begun {
	tb.Helper()
	got, err := b.Begin(tb.Context(), ref, token)
	if err != nil {
		tb.Fatal(err)
	}
	if got.Verdict != want {
		tb.Fatalf("begin %s by %s: verdict %d, want %d", ref, token, got.Verdict, want)
	}
	return got
}

func (b *bundle) status(tb testing.TB, id string) Status {
	tb.Helper()
	s, err := b.Status(tb.Context(), id)
	if err != nil {
		tb.Fatal(err)
	}
	if s.Succeeded+s.Failed+s.Expired+s.Cancelled+s.Outstanding != s.Total {
		tb.Fatalf("counts do not add up: %+v", s)
	}
	return s
}

func (b *bundle) records(tb testing.TB, id string) []Record {
	tb.Helper()
	var all []Record
	next, err := b.Results(tb.Context(), id, 0, func(r Record) error {
		all = append(all, r)
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	if int(next) != len(all) {
		tb.Fatalf("next offset %d after %d records", next, len(all))
	}
	return all
}

// retry takes the failed and expired lines of a batch back and releases them.
func (b *bundle) retry(tb testing.TB, id string) []Ref {
	tb.Helper()
	n, err := b.Retry(tb.Context(), id, Retry{}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return b.release(tb, id, int(n))
}

// call is a call that cost so many nano-dollars.
func call(model string, cost provider.USD) provider.Call {
	return provider.Call{Model: model, Kind: provider.OK, Cost: cost, StartedAt: newClock().t, LatencyMS: 12}
}

func answer(l Line, p Progress) Result {
	var cost provider.USD
	for _, c := range p.Calls {
		cost += c.Cost
	}
	return Result{
		ID: NewResultID(), CustomID: l.CustomID,
		Response: &Response{StatusCode: 200, RequestID: "req", Body: []byte(`{"choices":[{"message":{"content":"yes"}}]}`)},
		Nightshift: NightshiftInfo{
			Line: l.Number, Provider: "openai", Model: "openai/gpt-4o", Tier: "premium", Attempts: p.Calls,
			Deferrals: p.Deferrals, CostUSD: cost, Metadata: l.Metadata, Request: l.Digest,
		},
	}
}
