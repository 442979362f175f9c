package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
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
	c.goal(l, p)
	for i, r := range l.Rungs {
		at := p.child("rungs").index(i)
		c.rung(r, at)
		c.rungTwice(l.Rungs[:i], r, at)
		if r.After > 0 && !slices.ContainsFunc(l.Rungs[:i], Rung.refuses) {
			c.report(at.child("after"), "no model above can refuse a line, so this rung would never be tried", "delete it, or put a model without conditions above")
		}
		if r.always() && i < len(l.Rungs)-1 {
			c.report(at.child("text"), "a text always answers, so the rungs below it are never tried", "move it to the end")
		}
	}
}

// refuses says whether a rung's breaker can be the first that refuses a line.
func (r Rung) refuses() bool { return r.Model != "" && r.After == 0 && !r.AtDeadline }

// rungTwice refuses a rung that could only ever repeat one above it.
func (c *checker) rungTwice(above []Rung, r Rung, p path) {
	if r.Model == "" {
		return
	}
	for i, other := range above {
		if other.Model == r.Model && sameFields(other, r) {
			c.report(p.child("model"), fmt.Sprintf("the same as rungs[%d]", i), "delete one of the two, or have it set or drop other fields")
			return
		}
	}
}

// sameFields says whether two rungs change a request alike.
func sameFields(a, b Rung) bool {
	set := len(a.Set) == 0 && len(b.Set) == 0 || reflect.DeepEqual(a.Set, b.Set)
	return set && slices.Equal(slices.Sorted(slices.Values(a.Drop)), slices.Sorted(slices.Values(b.Drop)))
}

// always says whether a rung answers every line that comes to it.
func (r Rung) always() bool {
	return r.Text != "" && r.Model == "" && r.After == 0 && !r.AtDeadline
}

func (c *checker) rung(r Rung, p path) {
	isText := r.Text != "" || len(r.Rules) > 0
	if r.After > 0 && r.AtDeadline {
		c.report(p.child("after"), "a rung comes after a time or at the deadline, not both", "delete one of the two")
	}
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
	if r.Text != "" && len(r.Rules) > 0 {
		c.report(p.child("rules"), "a rung has a text or rules, not both", "put the text on a rung below")
	}
	c.template(p.child("text"), r.Text)
	for i, rule := range r.Rules {
		c.rule(rule, p.child("rules").index(i))
	}
}

// rule checks a text for the lines that match. One without either half would
// match every line or answer with nothing.
func (c *checker) rule(r Rule, p path) {
	switch {
	case r.Match == "" && !c.problems.under(p.child("match").String()):
		c.report(p, "a rule needs a match", `add one, as in match: "(?i)unsubscribe"`)
	case r.Text == "" && !c.problems.under(p.child("text").String()):
		c.report(p, "a rule needs a text", "")
	}
	if _, err := regexp.Compile(r.Match); err != nil {
		c.report(p.child("match"), "not a regular expression: "+strings.TrimPrefix(err.Error(), "error parsing regexp: "), "")
	}
	c.template(p.child("text"), r.Text)
}

// template checks the text of a rung or rule.
func (c *checker) template(p path, text string) {
	if _, err := template.New("text").Parse(text); err != nil {
		c.report(p, "not a Go template: "+templateError(err), "")
	}
}

// templateError leaves out the names that the parser puts before its message.
func templateError(err error) string {
	return strings.TrimPrefix(err.Error(), "template: text:")
}
