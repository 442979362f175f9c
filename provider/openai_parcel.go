package provider

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
)

// encode returns the body of a variant.
func (p *parcel) encode(v variant) []byte {
	e := edit{values: maps.Clone(p.values), drop: p.drop}
	switch v.mode {
	case withUsage:
		e.values["stream"] = []byte("true")
		if p.endpoint != Responses { // which tell their usage unasked
			e.values["stream_options"] = p.askUsage()
		}
	case bare:
		e.values["stream"] = []byte("true")
		e.drop = append(slices.Clone(p.drop), "stream_options")
	case plain:
		e.drop = append(slices.Clone(p.drop), "stream_options")
	}
	if v.renamed {
		from := p.limitName()
		to := otherLimit(from)
		e.rename = map[string]string{from: to}
		e.drop = append(slices.Clone(e.drop), to)
		delete(e.values, to)
	}
	return splice(p.body, p.obj, e)
}

// askUsage returns the body's stream options with the usage among them.
func (p *parcel) askUsage() []byte {
	own := p.field("stream_options")
	obj, err := scanObject(own)
	if err != nil {
		return []byte(`{"include_usage":true}`)
	}
	return splice(own, obj, edit{values: map[string][]byte{"include_usage": []byte("true")}})
}

// field returns the value of a field as it goes out plainly; nil: it has none.
func (p *parcel) field(key string) []byte {
	if v, ok := p.values[key]; ok {
		return v
	}
	if slices.Contains(p.drop, key) {
		return nil
	}
	for _, m := range slices.Backward(p.obj.members) {
		if m.key == key {
			return p.body[m.value:m.end]
		}
	}
	return nil
}

// canStream says that the answer can be put together from a stream.
func (p *parcel) canStream() bool {
	switch p.endpoint {
	case ChatCompletions:
		return !p.hasAudio()
	case Completions:
		best := p.field("best_of")
		return isEmpty(best) || string(best) == "1"
	}
	return p.endpoint == Responses
}

// hasAudio says that the answer is to be spoken.
func (p *parcel) hasAudio() bool {
	return !isEmpty(p.field("audio")) || bytes.Contains(p.field("modalities"), []byte(`"audio"`))
}

// choices is how many choices the request asks for.
func (p *parcel) choices() int {
	prompts := 1
	if p.endpoint == Completions {
		prompts = inputs(p.field("prompt"))
	}
	n, err := strconv.Atoi(string(p.field("n")))
	if err != nil {
		n = 1
	}
	return max(1, n) * prompts
}

// inputs is how many prompts or inputs a field holds: texts or lists of tokens.
func inputs(raw []byte) (n int) {
	eachElement(raw, func(value []byte) {
		if value[0] == '"' || value[0] == '[' {
			n++
		}
	})
	return max(1, n)
}

// limitName is the name that a chat has for its token limit; "": none. Where it
// has both, the newer one. Other endpoints have one name.
func (p *parcel) limitName() string {
	if p.endpoint != ChatCompletions {
		return ""
	}
	for _, name := range []string{newLimit, oldLimit} {
		if p.field(name) != nil {
			return name
		}
	}
	return ""
}
