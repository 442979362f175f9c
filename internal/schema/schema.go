package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Schema is a compiled schema. It is safe for concurrent use; checks of one
// schema take turns, since they share its budget.
type Schema struct {
	root *jsonschema.Schema
	// widest is the longest list that a value is held against: an enum, or the
	// names that must be there.
	widest int

	mu   sync.Mutex
	left int // steps of the check under way; below 0: it was given up
}

// location is the address that a schema compiles under; nobody sees it.
const location = "schema:///"

// sealed loads nothing: a schema stands alone.
type sealed struct{}

// Load implements jsonschema.URLLoader.
func (sealed) Load(string) (any, error) { return nil, errOutside }

var errOutside = errors.New("a schema may refer to its own parts only")

// Compile compiles a schema, which must be a JSON object. Its error says in one
// line what is wrong, and where in the schema.
func Compile(text []byte) (s *Schema, err error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("the schema is longer than %d KiB", MaxText>>10)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	if _, ok := doc.(map[string]any); !ok {
		return nil, errors.New("the schema is not a JSON object")
	}
	var n size
	if err := n.measure(doc, 0); err != nil {
		return nil, fmt.Errorf("the schema cannot be used: %w", err)
	}
	if n.parts > maxParts {
		return nil, fmt.Errorf("the schema has more than %d parts", maxParts)
	}
	s = &Schema{left: math.MaxInt}
	defer func() { // in the library: a schema must not end a worker
		if v := recover(); v != nil {
			s, err = nil, errors.New("the schema does not compile")
		}
	}()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(sealed{})
	c.UseRegexpEngine(s.pattern)
	if err := c.AddResource(location, doc); err != nil {
		return nil, fmt.Errorf("the schema does not compile: %w", err)
	}
	if s.root, err = c.Compile(location); err != nil {
		return nil, fmt.Errorf("the schema does not compile: %s", compileError(err))
	}
	if err := s.prepare(); err != nil {
		return nil, fmt.Errorf("the schema cannot be used: %w", err)
	}
	if s.circular() {
		return nil, errors.New("the schema refers to itself before it says anything, so that no value satisfies it")
	}
	return s, nil
}

// circular says whether values of every type end in a circle of references:
// answers would be paid for and refused, whatever they are.
func (s *Schema) circular() bool {
	for _, v := range []any{nil, false, "", json.Number("0"), []any{}, map[string]any{}} {
		var invalid *jsonschema.ValidationError
		s.left = baseSteps
		if !errors.As(s.root.Validate(v), &invalid) || !circle(invalid) {
			return false
		}
	}
	return true
}

func circle(e *jsonschema.ValidationError) bool {
	_, ok := e.ErrorKind.(*kind.RefCycle)
	return ok || slices.ContainsFunc(e.Causes, circle)
}

// Check returns nil where a JSON text satisfies the schema, else a *Mismatch.
func (s *Schema) Check(text []byte) error {
	if len(text) > maxValue {
		return &Mismatch{Where: "#", Text: fmt.Sprintf("the answer is longer than %d MiB", maxValue>>20)}
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return &Mismatch{Where: "#", Text: "the answer is not JSON: " + err.Error()}
	}
	var n size
	if err := n.measure(v, 0); err != nil {
		return &Mismatch{Where: "#", Text: "the answer cannot be checked: " + err.Error()}
	}
	if n.values*s.widest > maxHeld {
		return tooMuch()
	}
	return s.check(v, n)
}

func (s *Schema) check(v any, n size) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = baseSteps + stepsPerValue*n.values
	defer func() {
		if recover() != nil { // in the library: an answer must not end a worker
			err = tooMuch()
		}
	}()
	err = s.root.Validate(v)
	var invalid *jsonschema.ValidationError
	switch {
	case s.left < 0:
		return tooMuch()
	case errors.As(err, &invalid):
		return mismatch(invalid)
	}
	return nil
}
