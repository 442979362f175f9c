package ladder

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"nightshift/config"
	"nightshift/internal/schema"
	"nightshift/provider"
)

// output is what a ladder asks of its answers.
type output struct {
	schema  *schema.Schema // nil: none
	text    json.RawMessage
	deny    []*regexp.Regexp
	repairs int
	lines   *schema.Cache // the schemas of lines
	formats *formats
}

func newOutput(c config.Output) (output, error) {
	o := output{repairs: c.Repairs, lines: schema.NewCache(), formats: newFormats()}
	var problems []error
	for i, expr := range c.Deny {
		re, err := regexp.Compile(expr)
		if err != nil {
			problems = append(problems, fmt.Errorf("output.deny[%d]: %w", i, err))
		}
		o.deny = append(o.deny, re)
	}
	if len(c.SchemaText) > 0 {
		s, err := schema.Compile(c.SchemaText)
		if err != nil {
			problems = append(problems, fmt.Errorf("output.schema: %w", err))
		}
		o.schema, o.text = s, c.SchemaText
	}
	return o, errors.Join(problems...)
}

// guard is what must hold of the answers to one line.
type guard struct {
	endpoint string
	schema   *schema.Schema // nil: none
	// text is the schema, where the model has yet to be told of it: nil where
	// the body does.
	text   json.RawMessage
	digest [sha256.Size]byte // of text
	deny   []*regexp.Regexp
}

// guardOf returns the guard of a line; nil: every answer will do. The line's own
// schema comes first, then that of a strict response_format in its body, which
// the model is held to anyway, then the ladder's.
func (l *Ladder) guardOf(r Request) (*guard, error) {
	if !provider.HasText(r.Endpoint) {
		return nil, nil
	}
	format := formatOf(r.Endpoint, r.Body)
	if l.output.schema == nil && len(l.output.deny) == 0 && len(r.Schema) == 0 && !format.strict() {
		return nil, nil
	}
	g := guard{endpoint: r.Endpoint, schema: l.output.schema, text: l.output.text, deny: l.output.deny}
	switch {
	case len(r.Schema) > 0:
		s, err := l.output.lines.Compile(r.Schema)
		if err != nil {
			return nil, err
		}
		g.schema, g.text = s, r.Schema
	case format.strict():
		// One that does not compile here is the provider's affair alone.
		if s, err := l.output.lines.Compile(format.Schema.Schema); err == nil {
			g.schema = s
		}
	}
	if format != nil {
		g.text = nil
	}
	if g.schema == nil && len(g.deny) == 0 {
		return nil, nil
	}
	g.digest = sha256.Sum256(g.text)
	return &g, nil
}

// fault is what is wrong with an answer.
type fault struct {
	// why is for the record; it quotes nothing of the answer.
	why string
	// text is for the model; it may quote the answer.
	text string
	// message is the model's own, which it is shown.
	message reply
	// cut says that the answer was cut off by its length: the same request would
	// be cut off again.
	cut bool
	// last is the outcome of the call that brought the answer.
	last *provider.Error
}

// err is the fault as the outcome of the call that brought the answer.
func (f *fault) err(ans provider.Answer) *provider.Error {
	return &provider.Error{
		Kind: provider.InvalidOutput, StatusCode: ans.StatusCode, Message: f.why,
		RequestID: ans.RequestID, Usage: ans.Usage,
	}
}

// check returns the value that satisfies the schema (nil without one), or what
// is wrong with the answer. Nothing that is denied may stand in any choice; of
// several choices the first valid one counts.
func (g *guard) check(ans provider.Answer) (json.RawMessage, *fault) {
	choices, err := readAnswer(g.endpoint, ans.Body)
	if err != nil {
		return nil, &fault{why: "the answer has not the shape of its endpoint's", cut: true}
	}
	if f := g.denied(choices); f != nil {
		return nil, f
	}
	if g.schema == nil {
		return nil, nil
	}
	var first *fault
	for _, c := range choices {
		value, f := g.value(c)
		if f == nil {
			return value, nil
		}
		if first == nil || first.cut {
			first = f
		}
	}
	return nil, first
}

// denied finds what must never pass, in the text and the tool calls of every choice.
func (g *guard) denied(choices []answerChoice) *fault {
	for i, re := range g.deny {
		for _, c := range choices {
			for _, text := range c.texts() {
				if re.MatchString(text) {
					return &fault{
						why:     fmt.Sprintf("the answer holds what deny[%d] forbids", i),
						text:    fmt.Sprintf("nothing in it may match the regular expression %s", re),
						message: c.Message,
					}
				}
			}
		}
	}
	return nil
}

// value finds the value of one choice that satisfies the schema.
func (g *guard) value(c answerChoice) (json.RawMessage, *fault) {
	if c.isCut() {
		return nil, &fault{why: "the answer was cut off by its length", message: c.Message, cut: true}
	}
	found := candidates(c.value())
	var valid []string
	var mismatch *schema.Mismatch
	for _, text := range found.texts {
		err := g.schema.Check([]byte(text))
		if err == nil {
			valid = append(valid, text)
		} else if mismatch == nil {
			errors.As(err, &mismatch)
		}
	}
	switch {
	case len(valid) == 1:
		return json.RawMessage(valid[0]), nil
	case len(valid) > 1:
		return nil, &fault{why: "several blocks of the answer satisfy its schema", text: "several blocks of it would do; give one", message: c.Message}
	case mismatch != nil:
		return nil, &fault{why: mismatch.Error(), text: mismatch.Text, message: c.Message}
	}
	return nil, &fault{why: "the answer is not JSON", text: found.why, message: c.Message}
}
