package schema

import (
	"errors"
	"reflect"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var (
	errSpent   = errors.New("the budget of this check is spent")
	errPattern = errors.New("the regular expression is too large")
)

// prepare makes every part of the schema count its steps.
func (s *Schema) prepare() error {
	parts := map[*jsonschema.Schema]bool{}
	collect(reflect.ValueOf(s.root), parts)
	for p := range parts {
		if p.DynamicRef != nil || p.RecursiveRef != nil {
			return errors.New("$dynamicRef and $recursiveRef are not supported")
		}
		s.widest = max(s.widest, len(p.Required))
		for _, names := range p.DependentRequired {
			s.widest = max(s.widest, len(names))
		}
		if p.Enum != nil {
			s.widest = max(s.widest, len(p.Enum.Values))
		}
		p.Format = s.counting(p.Format)
	}
	return nil
}

// partType is what collect looks for.
var partType = reflect.TypeFor[*jsonschema.Schema]()

// collect adds the schemas that a value holds, through every exported field:
// those of keywords that are yet to come too.
func collect(v reflect.Value, parts map[*jsonschema.Schema]bool) {
	switch v.Kind() {
	case reflect.Interface:
		collect(v.Elem(), parts)
	case reflect.Slice:
		for i := range v.Len() {
			collect(v.Index(i), parts)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			collect(it.Value(), parts)
		}
	case reflect.Pointer:
		if v.Type() != partType || v.IsNil() {
			return
		}
		p := v.Interface().(*jsonschema.Schema)
		if parts[p] {
			return
		}
		parts[p] = true
		for i := range v.Elem().NumField() {
			if f := v.Elem().Field(i); f.CanInterface() {
				collect(f, parts)
			}
		}
	}
}

// counting is a format, or none, that counts a step first. It is the one place
// of a part where the library runs code of ours before it goes deeper; once the
// budget is spent it fails there, so that the check unwinds.
func (s *Schema) counting(f *jsonschema.Format) *jsonschema.Format {
	own := &jsonschema.Format{Name: "counting"}
	if f != nil {
		own.Name = f.Name
	}
	own.Validate = func(v any) error {
		if !s.spend(1 + length(v)/itemsPerStep) {
			return errSpent
		}
		if f == nil {
			return nil
		}
		return f.Validate(v)
	}
	return own
}

func length(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return len(v)
	case []any:
		return len(v)
	}
	return 0
}

// spend takes steps from the budget; false: there are none left.
func (s *Schema) spend(steps int) bool {
	if s.left >= 0 {
		s.left -= steps
	}
	return s.left >= 0
}

// pattern compiles a regular expression that counts its steps.
func (s *Schema) pattern(expr string) (jsonschema.Regexp, error) {
	if len(expr) > maxPattern {
		return nil, errPattern
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxProgram {
		return nil, errPattern
	}
	return &counted{re, len(program.Inst), s}, nil
}

// counted is a pattern that costs steps.
type counted struct {
	*regexp.Regexp
	size int
	s    *Schema
}

// MatchString implements jsonschema.Regexp.
func (c *counted) MatchString(text string) bool {
	return c.s.spend(1+c.size*len(text)/matchPerStep) && c.Regexp.MatchString(text)
}
