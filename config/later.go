package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// LaterKey is a key that is known but whose behaviour is still to come.
type LaterKey struct {
	// Key is its path; "*" stands for any name or index.
	Key string
	// Only is the one value, beside an absent or empty one, that is accepted
	// meanwhile because it asks for nothing: what happens today. Nil: none.
	Only any
}

// Later returns the keys to come. Who brings a behaviour deletes its row.
func Later() []LaterKey {
	return nil
}

// checkLater refuses every key to come that is set to something that would matter.
func (d *decoder) checkLater() {
	rows := Later()
	for _, id := range d.order {
		pl := d.places[id]
		i := slices.IndexFunc(rows, func(k LaterKey) bool { return k.matches(pl.path) })
		if i < 0 || rows[i].harmless(pl) {
			continue
		}
		d.problem(pl.pos, pl.path, rows[i].what(pl), rows[i].remedy())
	}
}

// matches says whether a path is the row's key.
func (k LaterKey) matches(p path) bool {
	segments := strings.Split(k.Key, ".")
	if len(segments) != len(p) {
		return false
	}
	for i, s := range segments {
		if s != "*" && s != p[i] {
			return false
		}
	}
	return true
}

// harmless says whether the value asks for nothing that is still to come.
func (k LaterKey) harmless(pl place) bool {
	if pl.node.kind == mapKind || pl.node.kind == listKind {
		return len(pl.node.entries)+len(pl.node.items) == 0
	}
	return reflect.DeepEqual(pl.value.Interface(), k.Only)
}

// what quotes a value only where it can be one of a few words, which no secret is.
func (k LaterKey) what(pl place) string {
	if pl.node.kind == mapKind || pl.node.kind == listKind || pl.value.Kind() == reflect.String && k.OnlyText() == "" {
		return "not supported yet"
	}
	return pl.node.text + " is not supported yet"
}

func (k LaterKey) remedy() string {
	if k.OnlyText() == "" {
		return "leave it out"
	}
	return "leave it out or write " + k.OnlyText()
}

// OnlyText is Only as the file has it; "" for an empty value.
func (k LaterKey) OnlyText() string {
	switch x := k.Only.(type) {
	case nil:
		return ""
	case time.Duration:
		return duration(x)
	}
	return fmt.Sprint(k.Only)
}

// duration is shorter than String: 168h in place of 168h0m0s.
func duration(t time.Duration) string {
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
