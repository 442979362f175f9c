package convoy

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// mostCalls bounds one run of a script: at some 5 µs a call it keeps others from
// Redis for a third of a millisecond.
const mostCalls = 64

// Run makes one call by itself.
func Run(ctx context.Context, rdb redis.Scripter, c Call) *Answer {
	reply, err := c.Script.Run(ctx, rdb, c.Keys, append(c.Shared[:len(c.Shared):len(c.Shared)], c.Own...)...).Result()
	a := answersOf(reply, err, 1, c.Alone)[0]
	return &a
}

// crowd are calls that are one.
type crowd struct {
	calls []*Call
	to    []*Answer // in the order of the calls
	text  bool      // Redis does not know the script by its digest
	cmd   *redis.Cmd
}

// send makes all calls in one pipeline, and returns the answers in their order.
func send(ctx context.Context, rdb redis.UniversalClient, calls []*Call) []Answer {
	answers := make([]Answer, len(calls))
	crowds := gather(calls, answers)
	for len(crowds) > 0 {
		pipe := rdb.Pipeline()
		for _, c := range crowds {
			c.put(ctx, pipe)
		}
		_, _ = pipe.Exec(ctx) // every command has its own error
		var again []*crowd
		for _, c := range crowds {
			again = append(again, c.heard()...)
		}
		crowds = again
	}
	return answers
}

// gather puts calls together that join, each after those before it.
func gather(calls []*Call, answers []Answer) []*crowd {
	var crowds []*crowd
next:
	for i, call := range calls {
		for _, c := range crowds {
			if len(c.calls) < mostCalls && c.calls[0].joins(call) {
				c.calls, c.to = append(c.calls, call), append(c.to, &answers[i])
				continue next
			}
		}
		crowds = append(crowds, &crowd{calls: []*Call{call}, to: []*Answer{&answers[i]}})
	}
	return crowds
}

func (c *crowd) put(ctx context.Context, pipe redis.Pipeliner) {
	first := c.calls[0]
	args := make([]any, 0, len(first.Shared)+len(c.calls)*len(first.Own))
	args = append(args, first.Shared...)
	for _, call := range c.calls {
		args = append(args, call.Own...)
	}
	if c.text {
		c.cmd = first.Script.Eval(ctx, pipe, first.Keys, args...)
	} else {
		c.cmd = first.Script.EvalSha(ctx, pipe, first.Keys, args...)
	}
}

// heard hands the answers out, and returns what is to be sent again.
func (c *crowd) heard() (again []*crowd) {
	reply, err := c.cmd.Result()
	var refused redis.Error
	switch {
	case redis.HasErrorPrefix(err, "NOSCRIPT") && !c.text:
		c.text = true
		return []*crowd{c}
	case errors.As(err, &refused) && len(c.calls) > 1:
		for i := range c.calls {
			again = append(again, &crowd{calls: c.calls[i : i+1], to: c.to[i : i+1], text: c.text})
		}
		return again
	}
	for i, a := range answersOf(reply, err, len(c.calls), c.calls[0].Alone) {
		*c.to[i] = a
	}
	return nil
}

// answersOf are the answers in a script's reply to n calls.
func answersOf(reply any, err error, n int, alone bool) []Answer {
	answers := make([]Answer, n)
	list, ok := reply.([]any)
	switch {
	case err == nil && alone:
		list = []any{reply}
	case err == nil && (!ok || len(list) != n):
		err = errReply
	}
	for i := range answers {
		if answers[i].err = err; err == nil {
			answers[i].reply = list[i]
		}
	}
	return answers
}
