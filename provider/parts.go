package provider

import "bytes"

// parts are the fields of an object that comes in pieces, in the order in which
// they came first.
type parts []*piece

// piece is one of them.
type piece struct {
	key  string
	form form
	raw  []byte // without the quotes of a string and the brackets of a list
}

// form is what a piece holds.
type form byte

const (
	value form = iota // any JSON value; pieces of it replace each other
	text              // a string
	list              // a list
)

func (p parts) find(key []byte) *piece {
	for _, f := range p {
		if f.key == string(key) {
			return f
		}
	}
	return nil
}

// raw returns what stands in a field; nil: it is not there.
func (p parts) raw(key string) []byte {
	if f := p.find([]byte(key)); f != nil {
		return f.raw
	}
	return nil
}

// piece returns a field, new or known; nil after an error.
func (a *assembly) piece(p *parts, key []byte) (f *piece, isNew bool) {
	if f := p.find(key); f != nil {
		return f, false
	}
	if !a.keep(pieceSize+len(key), len(*p)) {
		return nil, true
	}
	f = &piece{key: string(key), raw: []byte("null")}
	*p = append(*p, f)
	return f, true
}

// last sets a field, unless it is there and the new value says nothing.
func (a *assembly) last(p *parts, key, v []byte) {
	f, isNew := a.piece(p, key)
	if f == nil || !isNew && isEmpty(v) || f.form == value && bytes.Equal(f.raw, v) {
		return
	}
	a.set(f, value, v)
}

// join adds a string or a list to a field; whatever else replaces it, but for a
// null, which says nothing.
func (a *assembly) join(p *parts, key, v []byte) {
	f, _ := a.piece(p, key)
	if f == nil || string(v) == "null" {
		return
	}
	in := bytes.TrimSpace(v[1:max(1, len(v)-1)])
	switch v[0] {
	case '"':
		in, _ = inner(v)
		a.joinText(f, in)
	case '[':
		a.joinList(f, in)
	default:
		a.set(f, value, v)
	}
}

func (a *assembly) joinText(f *piece, in []byte) {
	switch f.form {
	case text:
		a.more(f, in)
	case list: // Mistral: thoughts in parts, then the text as such
		if len(in) > 0 {
			a.joinList(f, textPart(in))
		}
	default:
		a.set(f, text, in)
	}
}

func (a *assembly) joinList(f *piece, in []byte) {
	switch {
	case len(in) == 0 && f.form != value:
	case f.form == list && len(f.raw) > 0:
		a.more(f, []byte(","))
		a.more(f, in)
	case f.form == text && len(f.raw) > 0:
		a.set(f, list, textPart(f.raw))
		a.joinList(f, in)
	default:
		a.set(f, list, in)
	}
}

// textPart is a string as an element of a list of content.
func textPart(in []byte) []byte {
	return append(append([]byte(`{"type":"text","text":"`), in...), `"}`...)
}

func (a *assembly) set(f *piece, as form, raw []byte) {
	if a.keep(len(raw)-len(f.raw), 0) {
		f.form, f.raw = as, append(f.raw[:0], raw...)
	}
}

func (a *assembly) more(f *piece, raw []byte) {
	if a.keep(len(raw), 0) {
		f.raw = append(f.raw, raw...)
	}
}
