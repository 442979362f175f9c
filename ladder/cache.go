package ladder

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"nightshift/config"
	"nightshift/internal/packer"
	"nightshift/provider"
)

// AnswerStore keeps values by the digest of a request. It must be safe for
// concurrent use.
type AnswerStore interface {
	// Load returns what is kept; nil: nothing is.
	Load(ctx context.Context, digest string) ([]byte, error)
	// Save keeps a value for a time, in place of what was there.
	Save(ctx context.Context, digest string, value []byte, ttl time.Duration) error
	// Drop forgets what is kept.
	Drop(ctx context.Context, digest string) error
}

const (
	// storeLimit bounds each question to the store: a line must not wait for a
	// cache that is slower than its call might be.
	storeLimit = 250 * time.Millisecond
	// complainEvery is how often a store that fails is told of.
	complainEvery = time.Minute
	// maxPacked is the largest value that is kept, compressed: what is larger
	// costs the Redis of the queue more than it saves.
	maxPacked = 1 << 20
	// maxUnpacked bounds what one kept value may unpack to: the longest response
	// that an adapter reads, and some more.
	maxUnpacked = 65 << 20
)

// cache keeps the answers of one ladder.
type cache struct {
	store  AnswerStore
	ttl    time.Duration
	ladder sum // its fingerprint
	packer packer.Packer
	now    func() time.Time
	log    *slog.Logger
	told   atomic.Int64 // when a failure of the store was last told of, ms; 0: never
}

// newCache returns that of a ladder; nil: it keeps no answers.
func newCache(o Options, now func() time.Time, log *slog.Logger) (*cache, error) {
	if o.Cache == nil || o.Ladder.Cache <= 0 {
		return nil, nil
	}
	print, err := fingerprint(o)
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	return &cache{store: o.Cache, ttl: o.Ladder.Cache, ladder: print, packer: packer.New(maxUnpacked), now: now, log: log}, nil
}

// fingerprint is of all that can change what a ladder answers: its name, how it
// orders its models, what it asks of their answers, and of each model what it is
// sent and where. Texts are not part of it, since they are not kept.
func fingerprint(o Options) (sum, error) {
	type rung struct {
		Model, Name, BaseURL string
		API                  string
		Headers              map[string]string
		Set                  map[string]any
		Drop                 []string
	}
	l := o.Ladder
	all := struct {
		Name, Goal string
		Weights    config.Weights
		Output     config.Output
		Rungs      []rung
	}{Name: l.Name, Goal: l.Goal, Weights: l.Weights, Output: l.Output}
	all.Output.Schema = "" // what it says counts, and not where it lies
	for _, r := range l.Rungs {
		m := o.Models[r.Model]
		p := o.Providers[m.Provider]
		all.Rungs = append(all.Rungs, rung{r.Model, m.Name, m.BaseURL, p.API, p.Headers, r.Set, r.Drop})
	}
	js, err := json.Marshal(all)
	return sha256.Sum256(js), err
}

// digest names what a line asks of the ladder; "": it cannot be told.
func (c *cache) digest(r Request) string {
	body, err := digestBody(r.Body)
	if err != nil {
		return ""
	}
	var schema sum
	if len(r.Schema) > 0 {
		if schema, err = digestJSON(r.Schema, nil); err != nil {
			return ""
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "1 %x %q %d %q %t %x %x", c.ladder, r.Endpoint, r.Rung, r.Goal, r.Rehearsal, body, schema))
	return hex.EncodeToString(sum[:])
}

// keptAnswer is what is kept of an answer before its body, which follows on the
// next line as it came.
type keptAnswer struct {
	StatusCode int             `json:"status_code"`
	RequestID  string          `json:"request_id"`
	Provider   string          `json:"provider"`
	Model      string          `json:"model"`
	Tier       string          `json:"tier"`
	Rung       int             `json:"rung"`
	Output     json.RawMessage `json:"output,omitempty"`
}

// load returns the answer that is kept; nil: none is, or none that can be had.
func (c *cache) load(ctx context.Context, digest, endpoint string) *Answer {
	limited, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	packed, err := c.store.Load(limited, digest)
	switch {
	case ctx.Err() != nil, err == nil && packed == nil:
		return nil
	case err != nil:
		c.complain(ctx, "look up", err)
		return nil
	}
	ans, err := c.unpack(packed, endpoint)
	if err == nil {
		return ans
	}
	c.log.WarnContext(ctx, "an answer in the cache is damaged, it is dropped", "digest", digest, "error", err)
	if err := c.store.Drop(limited, digest); err != nil {
		c.complain(ctx, "drop", err)
	}
	return nil
}

func (c *cache) unpack(packed []byte, endpoint string) (*Answer, error) {
	text, err := c.packer.Unpack(packed)
	if err != nil {
		return nil, err
	}
	head, body, _ := bytes.Cut(text, []byte{'\n'})
	var k keptAnswer
	if err := json.Unmarshal(head, &k); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	ans := &Answer{
		Response: Response{StatusCode: k.StatusCode, RequestID: k.RequestID, Body: body},
		Provider: k.Provider, Model: k.Model, Tier: k.Tier, Rung: k.Rung, Cached: true, Output: k.Output,
	}
	if k.Model == "" || !mayKeep(endpoint, *ans) {
		return nil, errors.New("it is not one that is kept")
	}
	return ans, nil
}

// save keeps an answer, if it is not too large.
func (c *cache) save(ctx context.Context, digest string, a Answer) {
	head, err := encode(keptAnswer{a.StatusCode, a.RequestID, a.Provider, a.Model, a.Tier, a.Rung, a.Output})
	if err != nil {
		return
	}
	packed := c.packer.Pack(slices.Concat(head, []byte{'\n'}, a.Body))
	if len(packed) > maxPacked {
		return
	}
	limited, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	if err := c.store.Save(limited, digest, packed, c.ttl); err != nil {
		c.complain(ctx, "keep", err)
	}
}

// complain tells of a store that fails, once a minute: lines go on without it.
func (c *cache) complain(ctx context.Context, what string, err error) {
	now, last := c.now().UnixMilli(), c.told.Load()
	if last != 0 && now-last < complainEvery.Milliseconds() || !c.told.CompareAndSwap(last, now) {
		return
	}
	c.log.WarnContext(ctx, "the cache of answers cannot be used, lines go on without it", "step", what, "error", err)
}

// mayKeep says whether an answer is as good as the next one would be: whole, and
// of the line's first choice.
func mayKeep(endpoint string, a Answer) bool {
	return a.StatusCode == 200 && !a.Degraded && a.Truncated == 0 && isWhole(endpoint, a.Body)
}

// isWhole says whether an answer was ended by the model itself, and not by a
// limit, a filter or a failure: every choice of a completion says so, or the
// status of a response. Embeddings are always whole.
func isWhole(endpoint string, body json.RawMessage) bool {
	var answer struct {
		Choices []struct {
			FinishReason string `json:"finish_reason"`
		} `json:"choices"`
		Status string            `json:"status"`
		Data   []json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return false
	}
	switch endpoint {
	case provider.Embeddings:
		return len(answer.Data) > 0
	case provider.Responses:
		return answer.Status == "completed"
	}
	for _, c := range answer.Choices {
		if !slices.Contains([]string{"stop", "tool_calls", "function_call"}, c.FinishReason) {
			return false
		}
	}
	return len(answer.Choices) > 0
}

// recall answers the line with what the cache has for its request.
func (a *attempt) recall() bool {
	if a.l.cache == nil {
		return false
	}
	if a.digest = a.l.cache.digest(a.r); a.digest == "" {
		return false
	}
	ans := a.l.cache.load(a.ctx, a.digest, a.r.Endpoint)
	if ans == nil {
		return false
	}
	a.out.End, a.out.Answer = Answered, *ans
	return true
}

// keep puts the answer of a call into the cache. The line waits for that, but
// not for long, and its answer stands whatever becomes of it.
func (a *attempt) keep() {
	if a.digest != "" && a.out.End == Answered && mayKeep(a.r.Endpoint, a.out.Answer) {
		a.l.cache.save(context.WithoutCancel(a.ctx), a.digest, a.out.Answer)
	}
}
