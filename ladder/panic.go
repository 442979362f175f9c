package ladder

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"nightshift/provider"
)

// panicError is a panic of an adapter, caught.
type panicError struct {
	value any
	stack []byte
}

// Error names the value of the panic.
func (p *panicError) Error() string { return fmt.Sprintf("the adapter panicked: %v", p.value) }

func isPanic(err error) bool {
	_, is := errors.AsType[*panicError](err)
	return is
}

func stack(err error) string {
	if p, is := errors.AsType[*panicError](err); is {
		return string(p.stack)
	}
	return ""
}

// invoke calls an adapter and turns its panic into an error.
func invoke(ctx context.Context, c Caller, req provider.Request) (ans provider.Answer, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
	}()
	return c.Call(ctx, req)
}
