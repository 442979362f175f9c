package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// place is where a value of the file stands.
type place struct {
	path  path
	pos   position // of the value; of the key, where the value is a mapping
	node  *node
	value reflect.Value // as decoded
}

// decoder fills structs from a tree. Everything wrong becomes a problem; the
// field keeps its default.
type decoder struct {
	problems *problems
	places   map[string]place // by path.id, of everything that the file sets
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	autoType     = reflect.TypeFor[Auto]()
)

func (d *decoder) problem(pos position, p path, what, remedy string) {
	d.problems.add(pos, p.String(), what, remedy)
}

// decode puts n into v, which already holds its default; tag is of v's field.
// keyPos is where the key of n stands.
func (d *decoder) decode(n *node, v reflect.Value, tag reflect.StructTag, p path, keyPos position) {
	if n == nil || n.kind == nullKind {
		return // as if the key were not there
	}
	pos := n.pos
	if n.kind == mapKind {
		pos = keyPos
	}
	if d.value(n, v, tag, p) {
		d.places[p.id()] = place{p, pos, n, v}
	}
}

// value decodes by type and says whether v now holds the value.
func (d *decoder) value(n *node, v reflect.Value, tag reflect.StructTag, p path) bool {
	switch {
	case v.Kind() == reflect.Struct:
		return d.want(n, mapKind, p) && d.structure(n, v, p)
	case v.Kind() == reflect.Pointer:
		target := newValue(v.Type().Elem())
		ok := d.value(n, target, tag, p)
		v.Set(target.Addr())
		return ok
	case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.Interface:
		return d.want(n, mapKind, p) && d.free(n, v, p)
	case v.Kind() == reflect.Map:
		return d.want(n, mapKind, p) && d.mapping(n, v, tag, p)
	case v.Kind() == reflect.Slice && tag.Get("keyed") != "":
		return d.want(n, mapKind, p) && d.keyedList(n, v, tag, p)
	case v.Kind() == reflect.Slice:
		return d.want(n, listKind, p) && d.list(n, v, p)
	}
	return d.scalar(n, v, tag, p)
}

// want checks the kind of a node.
func (d *decoder) want(n *node, k kind, p path) bool {
	if n.kind == k {
		return true
	}
	d.problem(n.pos, p, fmt.Sprintf("want %s, got %s", k, n.kind), "")
	return false
}

func (d *decoder) structure(n *node, v reflect.Value, p path) bool {
	fields := fieldsOf(v.Type())
	for _, e := range n.entries {
		i, ok := fields[e.key]
		if !ok {
			d.unknown(e, fields, p)
			continue
		}
		d.decode(e.value, v.Field(i), v.Type().Field(i).Tag, p.child(e.key), e.pos)
	}
	return true
}

func (d *decoder) unknown(e entry, fields map[string]int, p path) {
	known := make([]string, 0, len(fields))
	for k := range fields {
		known = append(known, k)
	}
	d.problem(e.pos, p.child(e.key), "unknown key", DidYouMean(e.key, known))
}

func (d *decoder) mapping(n *node, v reflect.Value, tag reflect.StructTag, p path) bool {
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range n.entries {
		elem := newValue(v.Type().Elem())
		setKey(elem, tag, e.key)
		d.decode(e.value, elem, "", p.child(e.key), e.pos)
		d.entry(e, p)
		v.SetMapIndex(reflect.ValueOf(e.key), elem)
	}
	return true
}

func (d *decoder) keyedList(n *node, v reflect.Value, tag reflect.StructTag, p path) bool {
	for _, e := range n.entries {
		elem := newValue(v.Type().Elem())
		setKey(elem, tag, e.key)
		d.decode(e.value, elem, "", p.child(e.key), e.pos)
		d.entry(e, p)
		v.Set(reflect.Append(v, elem))
	}
	return true
}

// entry records where a named element stands, also one without a value.
func (d *decoder) entry(e entry, p path) {
	child := p.child(e.key)
	if _, ok := d.places[child.id()]; !ok {
		d.places[child.id()] = place{path: child, pos: e.pos, node: &node{kind: nullKind, pos: e.pos}}
	}
}

func (d *decoder) list(n *node, v reflect.Value, p path) bool {
	for i, item := range n.items {
		elem := newValue(v.Type().Elem())
		d.decode(item, elem, "", p.index(i), item.pos)
		v.Set(reflect.Append(v, elem))
	}
	return true
}

// free fills a map[string]any with plain JSON values.
func (d *decoder) free(n *node, v reflect.Value, p path) bool {
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range n.entries {
		value := reflect.New(v.Type().Elem()).Elem()
		if plain := e.value.plain(); plain != nil {
			value.Set(reflect.ValueOf(plain))
		}
		v.SetMapIndex(reflect.ValueOf(e.key), value)
		child := p.child(e.key)
		d.places[child.id()] = place{path: child, pos: e.pos, node: e.value}
	}
	return true
}

// plain returns the tree as encoding/json would decode it, but whole numbers
// as int64.
func (n *node) plain() any {
	switch n.kind {
	case nullKind:
		return nil
	case mapKind:
		m := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			m[e.key] = e.value.plain()
		}
		return m
	case listKind:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.plain()
		}
		return list
	}
	return n.value
}

// fieldsOf returns the index of each field that has a key.
func fieldsOf(t reflect.Type) map[string]int {
	fields := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "" && key != "-" {
			fields[key] = i
		}
	}
	return fields
}

// setKey writes an element's own key into the field that its tag names.
func setKey(elem reflect.Value, tag reflect.StructTag, key string) {
	if name := tag.Get("keyed"); name != "" {
		elem.FieldByName(name).SetString(key)
	}
}

// newValue returns an addressable value with its defaults.
func newValue(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	setDefaults(v)
	return v
}

// setDefaults applies the default tags of a struct and the structs in it.
func setDefaults(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Struct {
			setDefaults(v.Field(i))
			continue
		}
		if text, ok := v.Type().Field(i).Tag.Lookup("default"); ok {
			setText(v.Field(i), text)
		}
	}
}

// at returns where a path stands: itself, or what is nearest above it.
func (d *decoder) at(p path) position {
	for ; len(p) > 0; p = p[:len(p)-1] {
		if pl, ok := d.places[p.id()]; ok {
			return pl.pos
		}
	}
	return position{1, 1}
}

// isSet says whether the file sets a path.
func (d *decoder) isSet(p path) bool {
	_, ok := d.places[p.id()]
	return ok
}

// quoted shortens and quotes a value for a message.
func quoted(s string) string {
	const longest = 40
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}
