package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Mismatch says how an answer fails a schema.
type Mismatch struct {
	// Where is the part of the schema that failed, the first by its place in
	// the answer, e.g. "#/properties/price/type". It quotes nothing of the answer.
	Where string
	// Text says what is wrong with the answer and where, in at most about
	// maxText bytes, for the model that gave it. It may quote the answer.
	Text string
}

// Error is for logs: it quotes nothing of the answer.
func (m *Mismatch) Error() string { return "the answer fails its schema at " + m.Where }

// The bounds of a mismatch's text.
const (
	maxProblems    = 5
	maxProblem     = 300 // bytes
	maxText        = 1000
	maxAlternative = 3
	// maxGathered is how many problems are looked at; an answer can have one a value.
	maxGathered = 1000
)

func tooMuch() *Mismatch {
	return &Mismatch{Where: "#", Text: "the answer takes too many steps to check; it must be smaller or simpler"}
}

// problem is one thing wrong with an answer.
type problem struct{ where, text string }

func mismatch(e *jsonschema.ValidationError) *Mismatch {
	all := gather(nil, e)
	slices.SortFunc(all, func(a, b problem) int { return strings.Compare(a.text, b.text) })
	all = slices.Compact(all)
	m := &Mismatch{Where: all[0].where}
	var lines []string
	for _, p := range all[:min(len(all), maxProblems)] {
		lines = append(lines, p.text)
	}
	if more := len(all) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	m.Text = cut(strings.Join(lines, "\n"), maxText)
	return m
}

// gather appends the problems of an error: its leaves, with those of several
// alternatives as one.
func gather(all []problem, e *jsonschema.ValidationError) []problem {
	if len(all) >= maxGathered {
		return all
	}
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		if len(e.Causes) > 0 {
			return append(all, alternatives(e))
		}
	}
	if len(e.Causes) == 0 {
		return append(all, problem{place(e), cut(describe(e), maxProblem)})
	}
	for _, cause := range e.Causes {
		all = gather(all, cause)
	}
	return all
}

// alternatives is the problem of an answer that fits none of several schemas.
func alternatives(e *jsonschema.ValidationError) problem {
	var why []string
	for _, cause := range e.Causes[:min(len(e.Causes), maxAlternative)] {
		for _, p := range gather(nil, cause) {
			if len(why) < maxAlternative {
				why = append(why, p.text)
			}
		}
	}
	text := at(e) + "none of the alternatives fits (" + strings.Join(why, "; ") + ")"
	return problem{place(e), cut(text, maxProblem)}
}

// place is where the failing keyword stands in the schema.
func place(e *jsonschema.ValidationError) string {
	_, fragment, _ := strings.Cut(e.SchemaURL, "#")
	where := "#" + fragment
	if e.ErrorKind != nil {
		for _, token := range e.ErrorKind.KeywordPath() {
			where += "/" + token
		}
	}
	return cut(where, maxProblem)
}

// at is where in the answer a problem is, as the start of a sentence.
func at(e *jsonschema.ValidationError) string {
	var b strings.Builder
	for _, token := range e.InstanceLocation {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
	}
	if b.Len() == 0 {
		return "at the top: "
	}
	return "at " + b.String() + ": "
}

// describe says what is wrong with one value. Numbers are written plainly; the
// library's own words would group their digits.
func describe(e *jsonschema.ValidationError) string {
	var text string
	switch k := e.ErrorKind.(type) {
	case *kind.MinLength:
		text = fmt.Sprintf("the text has %d characters, want at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		text = fmt.Sprintf("the text has %d characters, want at most %d", k.Got, k.Want)
	case *kind.MinItems:
		text = fmt.Sprintf("the list has %d items, want at least %d", k.Got, k.Want)
	case *kind.MaxItems:
		text = fmt.Sprintf("the list has %d items, want at most %d", k.Got, k.Want)
	case *kind.Minimum:
		text = "want at least " + k.Want.RatString()
	case *kind.Maximum:
		text = "want at most " + k.Want.RatString()
	case *kind.ExclusiveMinimum:
		text = "want more than " + k.Want.RatString()
	case *kind.ExclusiveMaximum:
		text = "want less than " + k.Want.RatString()
	case *kind.MultipleOf:
		text = "want a multiple of " + k.Want.RatString()
	case *kind.Pattern:
		text = "the text does not match the pattern " + k.Want
	case *kind.Format: // the value can be long, and the reason repeats it
		text = fmt.Sprintf("the text is not a valid %s: %v", k.Want, k.Err)
	case *kind.Not:
		text = "it is what the schema says it must not be"
	case nil, *kind.FalseSchema:
		text = "it must not be there"
	default:
		_, text, _ = strings.Cut((&jsonschema.ValidationError{ErrorKind: k}).Error(), ": ")
	}
	return at(e) + text
}

// compileError says in one line why a schema does not compile.
func compileError(err error) string {
	var invalid *jsonschema.SchemaValidationError
	var outside *jsonschema.LoadURLError
	var problems *jsonschema.ValidationError
	switch {
	case errors.As(err, &invalid) && errors.As(invalid.Err, &problems):
		return strings.ReplaceAll(mismatch(problems).Text, "\n", ", ")
	case errors.As(err, &outside):
		return fmt.Sprintf("it refers to %q; %v", strings.TrimPrefix(outside.URL, location), errOutside)
	}
	return cut(strings.ReplaceAll(err.Error(), location, ""), maxText)
}

// cut shortens a text to about n bytes.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
