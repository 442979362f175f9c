package sim

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
)

// Script says how the simulator behaves.
type Script struct {
	// Seed is where all chance comes from.
	Seed uint64 `yaml:"seed"`
	// Default is for every model, also for those that Models has not.
	Default Behaviour `yaml:"default"`
	// Models is by the name that is sent in a request. What a model leaves out
	// it has from Default; its own faults come before those of Default.
	Models map[string]Behaviour `yaml:"models"`
}

// Behaviour is how a model behaves.
type Behaviour struct {
	Latency Latency `yaml:"latency"`
	Stream  Stream  `yaml:"stream"`
	Tokens  Tokens  `yaml:"tokens"`
	Limit   Limit   `yaml:"limit"`
	Faults  []Fault `yaml:"faults"` // the first that applies to a call wins
}

// Latency is how long an answer takes: Fixed; or uniform from Min to Max; or
// lognormal with a median of P50 and a 99th percentile of P99. Zero: at once.
type Latency struct {
	Fixed time.Duration `yaml:"fixed"`
	Min   time.Duration `yaml:"min"`
	Max   time.Duration `yaml:"max"`
	P50   time.Duration `yaml:"p50"`
	P99   time.Duration `yaml:"p99"`
}

// Stream is the pace of a streamed answer. A token is about four characters.
type Stream struct {
	// FirstToken is when the first token comes, after the head of the response.
	// 0: the answer begins after Latency, head and all.
	FirstToken time.Duration `yaml:"first_token"`
	// TokensPerSecond is the pace of each further one; 0: at once.
	TokensPerSecond float64 `yaml:"tokens_per_second"`
}

// Tokens is how many completion tokens an answer reports, uniform from Min to
// Max. Zero: by the length of the answer.
type Tokens struct {
	Min int `yaml:"min"`
	Max int `yaml:"max"`
}

// Fault is what goes wrong, and for which calls: those for which all of its
// conditions hold.
type Fault struct {
	Kind Kind `yaml:"kind"`
	// From and To bound the time since the start; To 0: no end. For a fault
	// that is added to a running server the start is when it was added.
	From time.Duration `yaml:"from"`
	To   time.Duration `yaml:"to"`
	// FirstCall and LastCall bound the model's call number, from 1; 0: no bound.
	FirstCall int64 `yaml:"first_call"`
	LastCall  int64 `yaml:"last_call"`
	// Share is the probability, over 0 up to 1; 0: always.
	Share float64 `yaml:"share"`
	// RetryAfter and RetryIn are the header of a refusal, and its time.
	RetryAfter RetryAfter    `yaml:"retry_after"`
	RetryIn    time.Duration `yaml:"retry_in"` // defaults to 1s
	// Text and Finish are the content and the finish reason of a kind says.
	Text   string `yaml:"text"`
	Finish string `yaml:"finish"` // defaults to stop
	// Delay is how long a refusal takes, or what is added to the latency.
	Delay time.Duration `yaml:"delay"`
	// AfterTokens is how many tokens of a stream come before the fault.
	AfterTokens int `yaml:"after_tokens"`
	// KeepAlive is how often a stall sends a comment; 0: never.
	KeepAlive time.Duration `yaml:"keep_alive"`
}

// RetryAfter is a form of telling the wait.
type RetryAfter string

// The forms.
const (
	RetryNone    RetryAfter = "none"
	RetrySeconds RetryAfter = "seconds" // Retry-After: 2
	RetryDate    RetryAfter = "date"    // Retry-After: Sun, 01 Mar 2026 12:00:02 GMT
	RetryMS      RetryAfter = "ms"      // retry-after-ms: 2000
)

// The largest values of a script: far beyond any use, and safe to reckon with.
const (
	maxLatency = 24 * time.Hour
	maxNumber  = 1_000_000_000
	minRate    = 0.001
)

// Load reads a script, YAML or JSON. Unknown keys and bad values are errors.
func Load(r io.Reader) (Script, error) {
	var s Script
	if err := decodeStrict(r, &s); err != nil {
		return Script{}, fmt.Errorf("read script: %w", err)
	}
	if err := s.Validate(); err != nil {
		return Script{}, err
	}
	return s, nil
}

// LoadFile is Load of a file.
func LoadFile(path string) (Script, error) {
	f, err := os.Open(path)
	if err != nil {
		return Script{}, fmt.Errorf("open script: %w", err)
	}
	defer f.Close()
	s, err := Load(f)
	if err != nil {
		return Script{}, fmt.Errorf("load %s: %w", path, err)
	}
	return s, nil
}

func decodeStrict(r io.Reader, v any) error {
	err := yaml.NewDecoder(r, yaml.DisallowUnknownField()).Decode(v)
	if errors.Is(err, io.EOF) { // an empty file: everything has its default
		return nil
	}
	return err
}

// Validate returns everything that is wrong with the script.
func (s Script) Validate() error {
	errs := []error{s.Default.validate("default")}
	for _, name := range slices.Sorted(maps.Keys(s.Models)) {
		errs = append(errs, s.Models[name].validate("models."+name))
	}
	return errors.Join(errs...)
}

func (b Behaviour) validate(at string) error {
	errs := []error{b.Latency.validate(at + ".latency")}
	if rate := b.Stream.TokensPerSecond; b.Stream.FirstToken < 0 || b.Stream.FirstToken > maxLatency || !(rate == 0 || rate >= minRate && rate <= maxNumber) {
		errs = append(errs, fmt.Errorf("%s.stream: want 0 <= first_token <= %v, tokens_per_second 0 or %v to %d", at, maxLatency, minRate, maxNumber))
	}
	if b.Tokens.Min < 0 || b.Tokens.Max < b.Tokens.Min || b.Tokens.Max > maxNumber {
		errs = append(errs, fmt.Errorf("%s.tokens: want 0 <= min <= max <= %d", at, maxNumber))
	}
	errs = append(errs, b.Limit.validate(at+".limit"))
	for i, f := range b.Faults {
		errs = append(errs, f.validate(fmt.Sprintf("%s.faults[%d]", at, i)))
	}
	return errors.Join(errs...)
}

func (l Latency) validate(at string) error {
	shapes := 0
	for _, used := range []bool{l.Fixed != 0, l.Min != 0 || l.Max != 0, l.P50 != 0 || l.P99 != 0} {
		if used {
			shapes++
		}
	}
	switch {
	case shapes > 1:
		return fmt.Errorf("%s: want one of fixed, min and max, p50 and p99", at)
	case l.Fixed < 0, l.Min < 0, l.Max < l.Min, l.P50 < 0, l.P99 < l.P50, l.P99 > 0 && l.P50 == 0:
		return fmt.Errorf("%s: want 0 <= min <= max, 0 < p50 <= p99", at)
	case max(l.Fixed, l.Max, l.P99) > maxLatency:
		return fmt.Errorf("%s: want at most %v", at, maxLatency)
	}
	return nil
}

func (f Fault) validate(at string) error {
	_, known := faults[f.Kind]
	switch {
	case !known:
		return fmt.Errorf("%s.kind: %q is none of %v", at, f.Kind, Kinds())
	case f.From < 0, f.To < 0, f.To > 0 && f.To <= f.From:
		return fmt.Errorf("%s: want 0 <= from < to", at)
	case f.FirstCall < 0, f.LastCall < 0, f.LastCall > 0 && f.LastCall < f.FirstCall:
		return fmt.Errorf("%s: want first_call <= last_call", at)
	case !(f.Share >= 0 && f.Share <= 1):
		return fmt.Errorf("%s.share: want 0 to 1", at)
	case f.AfterTokens < 0:
		return fmt.Errorf("%s.after_tokens: want no negative number", at)
	case f.RetryIn < 0, f.Delay < 0, f.KeepAlive < 0:
		return fmt.Errorf("%s: want no negative duration", at)
	case f.Kind != Says && f.Text+f.Finish != "":
		return fmt.Errorf("%s: text and finish are for kind says", at)
	case f.Kind == Slow && f.Delay == 0:
		return fmt.Errorf("%s: kind slow needs a delay", at)
	}
	return f.RetryAfter.validate(at)
}

func (r RetryAfter) validate(at string) error {
	if !slices.Contains([]RetryAfter{"", RetryNone, RetrySeconds, RetryDate, RetryMS}, r) {
		return fmt.Errorf("%s.retry_after: %q is none of none, seconds, date, ms", at, r)
	}
	return nil
}
