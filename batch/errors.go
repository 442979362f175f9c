package batch

import (
	"fmt"
	"strings"
)

// maxLineErrors is how many bad lines of a file are named.
const maxLineErrors = 20

// LineError says what is wrong with one line of a file.
type LineError struct {
	File  string
	Line  int64  // physical, from 1; 0: the file as a whole
	Field string // "" where it is no field's
	Msg   string

	damage bool // what seems wrong with lines before is only this
}

// Error is "file:line: field: message".
func (e *LineError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": " + e.what())
	return b.String()
}

// what is the error without its place.
func (e *LineError) what() string {
	if e.Field != "" {
		return e.Field + ": " + e.Msg
	}
	return e.Msg
}

// LineErrors are the bad lines of a file, the first of them by name.
type LineErrors struct {
	Errs []*LineError
	More int64 // bad lines beyond Errs
}

// Error has one line for each named error, and how many more there are.
func (e *LineErrors) Error() string {
	lines := make([]string, 0, len(e.Errs)+1)
	for _, le := range e.Errs {
		lines = append(lines, le.Error())
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the named errors.
func (e *LineErrors) Unwrap() []error {
	errs := make([]error, len(e.Errs))
	for i, le := range e.Errs {
		errs[i] = le
	}
	return errs
}

func (e *LineErrors) add(le *LineError) {
	if len(e.Errs) < maxLineErrors {
		e.Errs = append(e.Errs, le)
		return
	}
	e.More++
}
