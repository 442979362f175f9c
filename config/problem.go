package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Problem is one thing wrong with a configuration.
type Problem struct {
	// File is the name of the file; "" where the problem stands in none.
	File string
	// Line and Column count from 1; 0 where the problem stands in no file.
	Line, Column int
	// Key is the path of the key, e.g. "ladders.nightly.rungs[0].model"; for a
	// problem outside the file, the flag or environment variable.
	Key string
	// What is wrong, and what to do about it ("" where that is plain).
	What, Remedy string
}

// Error reads "FILE:LINE:COL: KEY: WHAT; REMEDY". It never holds a secret.
func (p Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Column)
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.What)
	if p.Remedy != "" {
		b.WriteString("; " + p.Remedy)
	}
	return b.String()
}

// Error is a configuration that cannot be used: all of its problems, in the
// order of the file.
type Error struct {
	Problems []Problem
}

// Error is one line a problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems, for errors.As.
func (e *Error) Unwrap() []error {
	errs := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		errs[i] = p
	}
	return errs
}

// position is a place in the file; both count from 1.
type position struct{ line, col int }

// problems collects what is wrong with one file.
type problems struct {
	file string
	list []Problem
}

func (ps *problems) add(pos position, key, what, remedy string) {
	ps.list = append(ps.list, Problem{File: ps.file, Line: pos.line, Column: pos.col, Key: key, What: what, Remedy: remedy})
}

// outside adds a problem of a flag or an environment variable.
func (ps *problems) outside(name, what, remedy string) {
	ps.list = append(ps.list, Problem{Key: name, What: what, Remedy: remedy})
}

// under says whether there is a problem at the key or below it.
func (ps *problems) under(key string) bool {
	return slices.ContainsFunc(ps.list, func(p Problem) bool {
		return p.Key == key || strings.HasPrefix(p.Key, key+".") || strings.HasPrefix(p.Key, key+"[")
	})
}

// err returns all problems as one error, or nil.
func (ps *problems) err() error {
	if len(ps.list) == 0 {
		return nil
	}
	slices.SortStableFunc(ps.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &Error{Problems: slices.Compact(ps.list)}
}

// path is the way to a key; list indices are segments like "[2]".
type path []string

func (p path) child(segment string) path { return append(slices.Clip(p), segment) }

func (p path) index(i int) path { return p.child(fmt.Sprintf("[%d]", i)) }

// String reads "ladders.nightly.rungs[2].model".
func (p path) String() string {
	var b strings.Builder
	for i, s := range p {
		if i > 0 && !strings.HasPrefix(s, "[") {
			b.WriteByte('.')
		}
		if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			s = strconv.Quote(s) // a problem is one line
		}
		b.WriteString(s)
	}
	return b.String()
}

// id is String without its ambiguity: a model's key may hold dots.
func (p path) id() string { return strings.Join(p, "\x00") }
