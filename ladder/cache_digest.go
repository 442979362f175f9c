package ladder

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// sum is the SHA-256 of a JSON value by what it says.
type sum [sha256.Size]byte

// unasked are the fields of a body that say nothing about what is asked: the
// rung brings the model, and the others are for whoever counts and carries.
var unasked = []string{
	"model", "metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "stream", "stream_options",
}

var (
	errNoJSON = errors.New("it is not JSON")
	// errBroken: it has a character that stands for what could not be read, so
	// that different texts would look the same.
	errBroken = errors.New("its text is broken")
)

// digestBody is the digest of a request's body without what is unasked. It is
// the same however the body is spelt: spaces, the order of fields and the escapes
// of texts do not count. Numbers count as they are written, and so does the
// whole of a body whose text is broken.
func digestBody(body []byte) (sum, error) {
	d, err := digestJSON(body, unasked)
	if errors.Is(err, errBroken) {
		return tagged("raw", body), nil
	}
	return d, err
}

// digestJSON is the digest of a value; without are the fields of its outermost
// object that do not count.
func digestJSON(raw []byte, without []string) (sum, error) {
	if !json.Valid(raw) { // which bounds the depth too
		return sum{}, errNoJSON
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return digestNext(d, without)
}

// digestNext is the digest of the decoder's next value. The kinds have tags, so
// that "1" is not 1.
func digestNext(d *json.Decoder, without []string) (sum, error) {
	token, err := d.Token()
	if err != nil {
		return sum{}, err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return digestObject(d, without)
		}
		return digestList(d)
	case string:
		if strings.ContainsRune(t, utf8.RuneError) {
			return sum{}, errBroken
		}
		return tagged("text", []byte(t)), nil
	case json.Number:
		return tagged("number", []byte(t)), nil
	case bool:
		if t {
			return tagged("true", nil), nil
		}
		return tagged("false", nil), nil
	}
	return tagged("null", nil), nil
}

func digestList(d *json.Decoder) (sum, error) {
	h := sha256.New()
	_, _ = io.WriteString(h, "list\n") // a hash never fails
	for d.More() {
		v, err := digestNext(d, nil)
		if err != nil {
			return sum{}, err
		}
		_, _ = h.Write(v[:])
	}
	_, err := d.Token() // the end
	return sum(h.Sum(nil)), err
}

// digestObject goes over the fields by their names. Of a name that is there
// twice, both count, in their order: who reads it may take either.
func digestObject(d *json.Decoder, without []string) (sum, error) {
	type field struct {
		name  string
		value sum
	}
	var fields []field
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return sum{}, err
		}
		name, _ := token.(string) // as names are
		if strings.ContainsRune(name, utf8.RuneError) {
			return sum{}, errBroken
		}
		value, err := digestNext(d, nil)
		if err != nil {
			return sum{}, err
		}
		if !slices.Contains(without, name) {
			fields = append(fields, field{name, value})
		}
	}
	slices.SortStableFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	h := sha256.New()
	_, _ = io.WriteString(h, "object\n")
	for _, f := range fields {
		name := tagged("name", []byte(f.name))
		_, _ = h.Write(name[:])
		_, _ = h.Write(f.value[:])
	}
	_, err := d.Token() // the end
	return sum(h.Sum(nil)), err
}

func tagged(tag string, b []byte) sum {
	h := sha256.New()
	_, _ = io.WriteString(h, tag+"\n")
	_, _ = h.Write(b)
	return sum(h.Sum(nil))
}
