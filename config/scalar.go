package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scalar decodes a single value and checks the bounds of its tag.
func (d *decoder) scalar(n *node, v reflect.Value, tag reflect.StructTag, p path) bool {
	what, remedy := setScalar(n, v)
	if what == "" {
		what, remedy = checkEnum(v, tag)
	}
	if what == "" {
		what, remedy = checkBounds(v, n.text, tag)
	}
	if what == "" {
		return true
	}
	d.problem(n.pos, p, what, remedy)
	setText(v, tag.Get("default"))
	return false
}

// setScalar puts a node's value into v, or says what is wrong with it. It does
// not quote texts that stand where a text is right: they may be secrets.
func setScalar(n *node, v reflect.Value) (what, remedy string) {
	switch {
	case v.Type() == durationType || v.Type() == autoType:
		return setDuration(n, v)
	case v.Kind() == reflect.String:
		return setString(n, v)
	case v.Kind() == reflect.Bool:
		b, ok := n.value.(bool)
		if !ok {
			return fmt.Sprintf("want true or false, got %s", n.describe()), ""
		}
		v.SetBool(b)
	case v.Kind() == reflect.Int:
		i, ok := n.value.(int64)
		if _, err := strconv.ParseInt(n.text, 10, 64); errors.Is(err, strconv.ErrRange) {
			return "the number is too large", "" // YAML takes it for a text
		}
		if !ok {
			return fmt.Sprintf("want a whole number, got %s", n.describe()), unquote(n)
		}
		v.SetInt(i)
	case v.Kind() == reflect.Float64:
		return setFloat(n, v)
	}
	return "", ""
}

func setString(n *node, v reflect.Value) (what, remedy string) {
	switch n.kind {
	case stringKind, intKind, floatKind: // 2024 is a fine name and header
		v.SetString(n.text)
		return "", ""
	case boolKind:
		return "want a text, got " + string(n.kind), "put it in quotes"
	}
	return "want a text, got " + string(n.kind), ""
}

func setFloat(n *node, v reflect.Value) (what, remedy string) {
	switch x := n.value.(type) {
	case int64:
		v.SetFloat(float64(x))
	case float64:
		v.SetFloat(x)
	default:
		return fmt.Sprintf("want a number, got %s", n.describe()), unquote(n)
	}
	return "", ""
}

func setDuration(n *node, v reflect.Value) (what, remedy string) {
	const example = "write a number and a unit, as in 30s, 10m or 24h"
	if n.kind == mapKind || n.kind == listKind || n.kind == boolKind {
		return "want a duration, got " + string(n.kind), example
	}
	if n.text == "auto" && v.Type() == autoType {
		v.SetInt(0)
		return "", ""
	}
	t, err := time.ParseDuration(n.text)
	if err == nil {
		v.SetInt(int64(t))
		return "", ""
	}
	if days, isDays := strings.CutSuffix(n.text, "d"); isDays {
		if f, err := strconv.ParseFloat(days, 64); err == nil && f > 0 && f < 100_000 {
			return quoted(n.text) + " is not a duration", fmt.Sprintf("days are written in hours, as in %gh", f*24)
		}
	}
	if n.kind == intKind || n.kind == floatKind {
		return quoted(n.text) + " has no unit", fmt.Sprintf("write %ss for seconds", n.text)
	}
	return quoted(n.text) + " is not a duration", example
}

// describe names the kind of a node, with its value where that helps.
func (n *node) describe() string {
	if n.kind == mapKind || n.kind == listKind {
		return string(n.kind)
	}
	return fmt.Sprintf("%s (%s)", n.kind, quoted(n.text))
}

// unquote is the remedy for a number in quotes, or in a form that YAML takes for a
// text, such as 1e6.
func unquote(n *node) string {
	_, err := strconv.ParseFloat(n.text, 64)
	switch {
	case n.kind != stringKind || err != nil:
		return ""
	case n.bare:
		return "write it in digits"
	}
	return "write it without quotes"
}

// setText sets v from the text of a default tag; "" leaves the zero value.
func setText(v reflect.Value, text string) {
	n := &node{kind: stringKind, text: text, value: text}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		n = &node{kind: intKind, text: text, value: i}
	}
	v.SetZero()
	if text != "" {
		setScalar(n, v)
	}
}

func checkEnum(v reflect.Value, tag reflect.StructTag) (what, remedy string) {
	list := tag.Get("enum")
	if list == "" {
		return "", ""
	}
	words := strings.Split(list, ",")
	if slices.Contains(words, v.String()) {
		return "", ""
	}
	if best := nearest(v.String(), words); best != "" {
		return quoted(v.String()) + " is not known", fmt.Sprintf("did you mean %q?", best)
	}
	return quoted(v.String()) + " is not known", "one of: " + strings.Join(words, ", ")
}

// checkBounds holds numbers and durations to their tag; without one they must
// not be negative.
func checkBounds(v reflect.Value, text string, tag reflect.StructTag) (what, remedy string) {
	if v.Type() == autoType && text == "auto" {
		return "", ""
	}
	x, ok := number(v)
	if !ok {
		return "", ""
	}
	low, high := 0.0, math.Inf(1)
	if s := tag.Get("min"); s != "" {
		low = bound(v.Type(), s)
	}
	if s := tag.Get("max"); s != "" {
		high = bound(v.Type(), s)
	}
	switch {
	case x < 0:
		return text + " is negative", ""
	case x < low:
		return text + " is too small", "at least " + tag.Get("min")
	case x > high:
		return text + " is too large", "at most " + tag.Get("max")
	}
	return "", ""
}

// number returns the value of a number or duration.
func number(v reflect.Value) (float64, bool) {
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		return float64(v.Int()), true
	case reflect.Float64:
		return v.Float(), true
	}
	return 0, false
}

// bound reads the text of a min or max tag as a value of type t.
func bound(t reflect.Type, text string) float64 {
	v := reflect.New(t).Elem()
	setText(v, text)
	x, _ := number(v)
	return x
}
