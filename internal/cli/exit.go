package cli

import (
	"errors"
	"fmt"
)

// The exit codes of both commands.
const (
	ExitOK          = 0
	ExitError       = 1   // a runtime error
	ExitUsage       = 2   // wrong usage
	ExitSomeFailed  = 3   // finished, but some lines failed
	ExitRefused     = 4   // refused for now
	ExitInterrupted = 130 // as a shell reports SIGINT
)

// Error is an error with an exit code and, where there is one, a way out.
type Error struct {
	Code int
	Err  error  // nil: nothing is printed, the command has said it all
	Hint string // one line a hint
}

// Error is the text of the error, without the hint.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Usage is wrong usage.
func Usage(hint, format string, args ...any) error {
	return &Error{Code: ExitUsage, Err: fmt.Errorf(format, args...), Hint: hint}
}

// Refuse is a refusal for now.
func Refuse(hint, format string, args ...any) error {
	return &Error{Code: ExitRefused, Err: fmt.Errorf(format, args...), Hint: hint}
}

// Fail is a runtime error with a hint.
func Fail(hint string, err error) error {
	return &Error{Code: ExitError, Err: err, Hint: hint}
}

// NoRedis is a Redis that does not answer.
func NoRedis(err error) error {
	return Fail("name another Redis with --redis URL, or start one: redis-server --appendonly yes --maxmemory-policy noeviction", err)
}

// Exit ends the command with a code after it has said everything itself.
func Exit(code int) error { return &Error{Code: code} }

// codeOf returns the exit code of an error that a command returned.
func codeOf(err error) int {
	var e *Error
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &e):
		return e.Code
	}
	return ExitError
}
