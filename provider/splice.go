package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"nightshift/internal/jsonscan"
)

var errNotObject = errors.New("the body is not a JSON object")

// parcel is a body with the model's name and a rung's set and drop. Every other
// byte of it goes out as it came in: a body that is decoded and encoded again
// loses the format of its numbers, repeated keys and the order of keys.
type parcel struct {
	body     []byte
	obj      object
	values   map[string][]byte // the JSON of what is set
	drop     []string
	streams  bool // it is to be streamed
	endpoint string
}

// newParcel makes a parcel of a request, which it refuses if its body is no JSON
// object. Set wins over drop, and model over both; an empty model leaves the
// body's own.
func newParcel(r Request) (*parcel, error) {
	values, err := encodeValues(r.Model, r.Set)
	if err != nil {
		return nil, err
	}
	obj, err := scanObject(r.Body)
	if err != nil {
		return nil, err
	}
	p := &parcel{body: r.Body, obj: obj, values: values, drop: r.Drop, endpoint: r.Endpoint}
	p.streams = (r.FirstToken > 0 || r.Idle > 0) && p.canStream()
	return p, nil
}

// edit is what splice changes.
type edit struct {
	values map[string][]byte // fields that are set
	drop   []string          // fields that are left out; set wins
	rename map[string]string // names; the other fields' changes go by the old ones
}

// splice returns the body with an edit. A field that is there keeps its place,
// a new one goes to the end; a key that is there twice is changed twice.
func splice(body []byte, obj object, e edit) []byte {
	out := append(make([]byte, 0, len(body)+256), body[:obj.open]...)
	first := true
	comma := func() {
		if !first {
			out = append(out, ',')
		}
		first = false
	}
	for _, m := range obj.members {
		value, changed := e.values[m.key]
		if !changed && slices.Contains(e.drop, m.key) {
			continue
		}
		if !changed {
			value = body[m.value:m.end]
		}
		comma()
		out = e.appendKey(out, m.key, body[m.lead:m.value])
		out = append(out, value...)
		out = append(out, body[m.end:m.sep]...)
	}
	for _, key := range obj.missing(e.values) {
		comma()
		out = append(e.appendKey(out, key, encodeString(key)), ':')
		out = append(out, e.values[key]...)
	}
	return append(out, body[obj.tail:]...)
}

// appendKey appends a key as it stands in raw, with what surrounds it.
func (e edit) appendKey(out []byte, key string, raw []byte) []byte {
	name, renamed := e.rename[key]
	if !renamed {
		return append(out, raw...)
	}
	open := bytes.IndexByte(raw, '"')
	out = append(out, raw[:open]...)
	out = append(out, encodeString(name)...)
	return append(out, raw[jsonscan.String(raw, open)+1:]...)
}

// ReplaceField returns a body with one field of its top level replaced by a
// value that is JSON, or added at its end, and every other byte as it came in.
func ReplaceField(body []byte, field string, value json.RawMessage) ([]byte, error) {
	obj, err := scanObject(body)
	if err != nil {
		return nil, err
	}
	return splice(body, obj, edit{values: map[string][]byte{field: value}}), nil
}

// encodeValues returns the JSON of every field that is set.
func encodeValues(model string, set map[string]any) (map[string][]byte, error) {
	values := make(map[string][]byte, len(set)+1)
	for key, v := range set {
		b, err := encodeJSON(v)
		if err != nil {
			return nil, fmt.Errorf("encode field %q: %w", key, err)
		}
		values[key] = b
	}
	if model != "" {
		values["model"] = encodeString(model)
	}
	return values, nil
}

// encodeJSON encodes without the escapes for HTML, which no API needs.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func encodeString(s string) []byte {
	b, _ := encodeJSON(s) // a string always encodes
	return b
}

// object is the top level of a body, as offsets into it.
type object struct {
	open    int // behind the opening brace
	tail    int // behind the last value: white space and the closing brace follow
	members []member
}

// member is one field: body[lead:value] is its key with what surrounds it,
// body[value:end] its value, body[end:sep] the white space before the comma.
type member struct {
	key                   string
	lead, value, end, sep int
}

// missing returns the keys of values that the object has not, sorted so that
// equal requests stay equal bytes.
func (o object) missing(values map[string][]byte) []string {
	rest := maps.Clone(values)
	for _, m := range o.members {
		delete(rest, m.key)
	}
	return slices.Sorted(maps.Keys(rest))
}

// scanObject finds the fields of a body's top level. It relies on json.Valid
// for the grammar and only looks for where things begin and end.
func scanObject(b []byte) (object, error) {
	i := jsonscan.Space(b, 0)
	if i == len(b) || b[i] != '{' || !json.Valid(b) {
		return object{}, errNotObject
	}
	o := object{open: i + 1, tail: i + 1}
	for i = jsonscan.Space(b, o.open); b[i] != '}'; i = jsonscan.Space(b, i) {
		m := member{lead: o.open}
		if b[i] == ',' {
			o.members[len(o.members)-1].sep = i
			m.lead = i + 1
			i = jsonscan.Space(b, i+1)
		}
		over := jsonscan.Value(b, i)
		if err := json.Unmarshal(b[i:over], &m.key); err != nil {
			return object{}, fmt.Errorf("read a key: %w", err)
		}
		m.value = jsonscan.Space(b, jsonscan.Space(b, over)+1)
		m.end = jsonscan.Value(b, m.value)
		m.sep = m.end
		o.members = append(o.members, m)
		o.tail = m.end
		i = m.end
	}
	return o, nil
}
