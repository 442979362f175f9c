package convoy

import (
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Call is one line's call of a script. Those that agree in all but Own become one:
// its arguments are the shared ones, then each one's own in turn. The script
// replies a list with an answer to each.
type Call struct {
	Script *redis.Script
	Keys   []string
	Shared []any // comparable: strings and numbers
	Own    []any
	// Alone says that the script takes one call at a time, and replies its answer.
	Alone bool
}

// joins says whether two calls become one.
func (c *Call) joins(o *Call) bool {
	return c.Script == o.Script && !c.Alone && !o.Alone && len(c.Own) == len(o.Own) &&
		slices.Equal(c.Keys, o.Keys) && (same(c.Shared, o.Shared) || slices.Equal(c.Shared, o.Shared))
}

// same says that two slices are one.
func same(a, b []any) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// ErrUnsent is the answer to a call that was not sent.
var ErrUnsent = errors.New("it was not sent")

// Answer is what Redis said to a call. It belongs to the party's owner.
type Answer struct {
	reply any
	err   error
}

// Result is the script's answer, or why there is none.
func (a *Answer) Result() (any, error) { return a.reply, a.err }

// Err is why there is no answer.
func (a *Answer) Err() error { return a.err }

// Int is the answer as a whole number.
func (a *Answer) Int() (int64, error) {
	if a.err != nil {
		return 0, a.err
	}
	n, ok := a.reply.(int64)
	if !ok {
		return 0, errReply
	}
	return n, nil
}

// Slice is the answer as a list.
func (a *Answer) Slice() ([]any, error) {
	if a.err != nil {
		return nil, a.err
	}
	list, ok := a.reply.([]any)
	if !ok {
		return nil, errReply
	}
	return list, nil
}

var errReply = errors.New("the script replied nonsense")

// Party is what one line asks at once. It is for one goroutine, and for one trip;
// the zero Party is ready.
type Party struct {
	calls   []Call
	answers []*Answer
}

// Add adds a call. Its answer is there when the party was sent.
func (p *Party) Add(c Call) *Answer {
	a := &Answer{err: ErrUnsent}
	p.calls, p.answers = append(p.calls, c), append(p.answers, a)
	return a
}

// Grow makes room for n more calls.
func (p *Party) Grow(n int) {
	p.calls, p.answers = slices.Grow(p.calls, n), slices.Grow(p.answers, n)
}

// Len is how many calls were added.
func (p *Party) Len() int { return len(p.calls) }

// take gives the party its answers.
func (p *Party) take(answers []Answer) {
	for i, a := range p.answers {
		*a = answers[i]
	}
}

// fail is for a party of which nothing is known.
func (p *Party) fail(err error) {
	for _, a := range p.answers {
		*a = Answer{err: err}
	}
}
