package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
)

// greetingLimit is how long the first words on a new connection may be tried.
const greetingLimit = 2 * time.Second

// greetingHook gives up a new connection that does not answer its first words. go-redis
// repeats those on the same connection, as often and as patiently as any command, even
// when that connection is dead: with the queue's patience one that Redis accepted just
// before it fell took half a minute, in which a worker neither took tasks nor could
// stop. Given up, the command goes on over another connection.
type greetingHook struct{}

func (greetingHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (greetingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !greets(cmd) {
			return next(ctx, cmd)
		}
		return greet(ctx, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

func (greetingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, c := range cmds {
			if !greets(c) {
				return next(ctx, cmds)
			}
		}
		return greet(ctx, func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

// greets says whether a command is of those that go-redis opens a connection with.
// The queue sends none of them itself.
func greets(cmd redis.Cmder) bool {
	switch cmd.Name() {
	case "hello", "auth", "client", "select", "readonly":
		return true
	}
	return false
}

// greet ends as if the connection had fallen, which go-redis tries again.
func greet(ctx context.Context, do func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, greetingLimit)
	defer cancel()
	err := do(limited)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("no answer to the first words within %s: %w", greetingLimit, io.ErrUnexpectedEOF)
	}
	return err
}
