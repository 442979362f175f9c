package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Env is what a command runs in.
type Env struct {
	Name string // of the program
	In   io.Reader
	Out  io.Writer
	Err  *Stderr
	// Common are the flags that every command has.
	Common Flags

	signals *signals
	zone    *time.Location // of the configuration; nil: the machine's
}

// New returns the environment of a program.
func New(name string, in io.Reader, out, errs io.Writer) *Env {
	return &Env{Name: name, In: in, Out: out, Err: &Stderr{w: errs, terminal: isTerminal(errs)}}
}

// isTerminal says whether a bar can be drawn on w: a terminal that has a width.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	return err == nil && width > 0
}

// Execute runs the command that args name and returns the exit code. It prints
// the error that the command ended in.
func (e *Env) Execute(root *cobra.Command, args []string) int {
	e.prepare(root)
	root.SetArgs(args)
	ctx, stop := e.watchSignals(context.Background())
	defer stop()
	err := root.ExecuteContext(ctx)
	if Interrupted(ctx) && errors.Is(err, context.Canceled) {
		err = &Error{Code: ExitInterrupted, Err: errors.New("interrupted")}
	}
	e.Report(err)
	return codeOf(err)
}

// Report prints an error and its hint.
func (e *Env) Report(err error) {
	var known *Error
	if err == nil || (errors.As(err, &known) && known.Err == nil) {
		return
	}
	e.print("error", err.Error())
	if known != nil && known.Hint != "" {
		e.print("hint", known.Hint)
	}
}

// Hint prints a way on.
func (e *Env) Hint(format string, args ...any) { e.print("hint", fmt.Sprintf(format, args...)) }

// Warn prints what is odd but no error.
func (e *Env) Warn(format string, args ...any) { e.print("warning", fmt.Sprintf(format, args...)) }

// Say prints a line for people on the standard error stream.
func (e *Env) Say(format string, args ...any) { fmt.Fprintf(e.Err, format+"\n", args...) }

func (e *Env) print(what, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(e.Err, "%s: %s: %s\n", e.Name, what, strings.TrimRight(line, "\n"))
	}
}

// Logger returns the log of the command: to the standard error stream, from the
// given level on, or from debug with --verbose.
func (e *Env) Logger(level slog.Level) *slog.Logger {
	if e.Common.Verbose {
		level = slog.LevelDebug
	}
	o := &slog.HandlerOptions{Level: level}
	if e.Common.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(e.Err, o))
	}
	return slog.New(slog.NewTextHandler(e.Err, o))
}
