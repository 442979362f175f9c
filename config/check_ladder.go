package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
)

func (c *checker) ladder(l Ladder) {
	p := path{"ladders", l.Name}
	c.name(p, "a ladder's", l.Name)
	if len(l.Rungs) == 0 && !c.problems.under(p.child("rungs").String()) {
		c.report(p, "a ladder needs at least one rung", "add one, as in rungs: [{model: openai/gpt-4o}]")
	}
	for i, r := range l.Rungs {
		at := p.child("rungs").index(i)
		c.rung(r, at)
		if r.always() && i < len(l.Rungs)-1 {
			c.report(at.child("text"), "a text always answers, so the rungs below it are never tried", "move it to the end")
		}
	}
}

// always says whether a rung answers every line that comes to it.
func (r Rung) always() bool {
	return r.Text != "" && r.Model == "" && r.After == 0 && !r.AtDeadline
}

func (c *checker) rung(r Rung, p path) {
	isText := r.Text != "" || len(r.Rules) > 0
	switch {
	case r.Model != "" && isText:
		c.report(p, "a rung is a model or a text, not both", "make two rungs of it")
	case r.Model == "" && !isText && !c.problems.under(p.String()):
		c.report(p, "a rung needs a model or a text", "")
	case r.Model != "":
		c.rungModel(r, p)
	default:
		c.rungText(r, p)
	}
}

func (c *checker) rungModel(r Rung, p path) {
	if _, ok := c.cfg.Models[r.Model]; !ok {
		c.report(p.child("model"), fmt.Sprintf("no model %s", quoted(r.Model)), DidYouMean(r.Model, slices.Collect(maps.Keys(c.cfg.Models))))
	}
	for _, field := range slices.Sorted(maps.Keys(r.Set)) {
		c.rungField(p.child("set").child(field), field)
	}
	for i, field := range r.Drop {
		at := p.child("drop").index(i)
		c.rungField(at, field)
		if _, ok := r.Set[field]; ok {
			c.report(at, fmt.Sprintf("the field %s is set by the same rung", quoted(field)), "delete one of the two")
		}
	}
}

// rungField refuses the fields that a rung must not change: the model's name is
// the model's, and a stream cannot be recorded as one answer.
func (c *checker) rungField(p path, field string) {
	switch field {
	case "":
		c.report(p, "the name of a field is missing", "")
	case "model":
		c.report(p, "a rung cannot change the model", "give the model a name, or add a rung")
	case "messages":
		c.report(p, "a rung cannot change the messages", "delete it")
	case "stream", "stream_options":
		c.report(p, "a rung cannot change how the answer is streamed", "delete it")
	}
}

func (c *checker) rungText(r Rung, p path) {
	for _, key := range []string{"tries", "set", "drop", "price"} {
		if c.isSet(p.child(key)) {
			c.report(p.child(key), "without effect on a text", "delete it")
		}
	}
	if r.Text == "" {
		return
	}
	if _, err := template.New("text").Parse(r.Text); err != nil {
		c.report(p.child("text"), "not a Go template: "+templateError(err), "")
	}
}

// templateError leaves out the names that the parser puts before its message.
func templateError(err error) string {
	return strings.TrimPrefix(err.Error(), "template: text:")
}
