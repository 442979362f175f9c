package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The bounds of a schema.
const (
	// MaxText is the longest schema, in bytes.
	MaxText = 128 << 10
	// maxParts is how many schemas may stand within one: objects and booleans,
	// wherever they are. Compiling looks at each pair of them.
	maxParts = 5000
	// maxPattern is the longest pattern, in bytes.
	maxPattern = 2000
	// maxProgram is how large a pattern may be, in the instructions of its
	// program: .{1,1000} has about 2,000.
	maxProgram = 10_000
)

// The bounds of an answer.
const (
	// maxValue is the longest answer that is checked, in bytes: several times
	// what any model puts out at once.
	maxValue = 2 << 20
	// maxDepth is how deep an answer, or a schema, may nest.
	maxDepth = 64
	// maxNumber is the longest number, in characters, and maxExponent its
	// largest exponent: they are compared exactly, digit by digit.
	maxNumber   = 400
	maxExponent = 400
	// maxHeld bounds how many values times how long a list (an enum, the names
	// that must be there) they are held against, which costs no steps.
	maxHeld = 5_000_000
)

// The budget of a check: what every answer has, and what each of its values
// adds. A part of a schema that meets a value costs a step, and a long list,
// object or text costs more.
const (
	baseSteps     = 50_000
	stepsPerValue = 100
	itemsPerStep  = 16
	// matchPerStep is how many instructions times characters of a pattern are a step.
	matchPerStep = 1000
)

// size is what was counted of a JSON value.
type size struct {
	values int
	parts  int // objects and booleans
}

var (
	errDeep   = fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	errNumber = errors.New("it holds a number too large or too long to compare")
)

// measure counts the values in v and finds what is beyond the bounds.
func (s *size) measure(v any, depth int) error {
	s.values++
	if depth > maxDepth {
		return errDeep
	}
	switch v := v.(type) {
	case bool:
		s.parts++
	case map[string]any:
		s.parts++
		for _, member := range v {
			if err := s.measure(member, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := s.measure(item, depth+1); err != nil {
				return err
			}
		}
	case json.Number:
		return comparable(string(v))
	}
	return nil
}

// comparable says whether a number, valid JSON, can be compared exactly without
// making millions of digits of it.
func comparable(number string) error {
	if len(number) > maxNumber {
		return errNumber
	}
	i := strings.IndexAny(number, "eE")
	if i < 0 {
		return nil
	}
	exponent := strings.TrimLeft(number[i+1:], "+-0")
	if len(exponent) > 3 || len(exponent) == 3 && exponent > fmt.Sprint(maxExponent) {
		return errNumber
	}
	return nil
}
