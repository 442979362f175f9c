package batch

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"

	"nightshift/provider"
)

func FuzzParseLine(f *testing.F) {
	f.Add([]byte(openAI("a")))
	f.Add([]byte(`{"id":"a","prompt":"x","system":"s","max_tokens":5,"metadata":{"a":[1,{}]}}`))
	f.Add([]byte(`{"id":"a","prompt":"x","probe_safe":false}`))
	f.Add([]byte(` { "custom_id" : "a\"\\" ,"url":"/v1/chat/completions","method":"POST", "body" : {"messages":[ 1 , "]" ],"n":-1.5e3,"x":null} } `))
	f.Add([]byte(`{"custom_id":"a","url":"/embeddings","method":"POST","body":{"input":[[1],"a"]}}`))
	f.Add([]byte(`{"custom_id":"a","url":"/v1/responses","method":"POST","body":{"prompt":{"id":"p"},"background":false}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := parseLine(raw)
		if err != nil {
			return
		}
		if l.CustomID == "" || len(l.CustomID) > maxCustomID || !slices.Contains(provider.Endpoints(), l.Endpoint) {
			t.Fatalf("accepted %q as %+v", raw, l)
		}
		var body map[string]json.RawMessage
		if err := json.Unmarshal(l.Body, &body); err != nil || len(body[endpoints[l.Endpoint].field])+len(body["prompt"]) == 0 {
			t.Fatalf("body %q of %q: %v", l.Body, raw, err)
		}
		if bytes.Contains(raw, []byte(`"body"`)) && !bytes.Contains(raw, l.Body) {
			t.Fatalf("body %q does not stand in %q", l.Body, raw)
		}
	})
}

func FuzzFields(f *testing.F) {
	f.Add(`{"a":1,"b":[1,{"c":"}"}],"d":"\"","e":{},"f":true , "g" : -0.1e5}`)
	f.Add(`{}`)
	f.Fuzz(func(t *testing.T, text string) {
		var want map[string]json.RawMessage
		if !utf8.ValidString(text) || json.Unmarshal([]byte(text), &want) != nil || want == nil {
			return // parseLine refuses it before
		}
		got, err := fields(nil, []byte(text))
		if err != nil {
			return // a repeated name
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %d fields, want %d", text, len(got), len(want))
		}
		for _, f := range got {
			if string(f.value) != string(want[f.name]) {
				t.Fatalf("%q: field %q is %q, want %q", text, f.name, f.value, want[f.name])
			}
		}
	})
}

func FuzzDecodeChunk(f *testing.F) {
	b, err := encodeChunk(nil, []Line{{Number: 1, CustomID: "a", Endpoint: "/x", Body: []byte("{}"), Digest: "0123456789abcdef", NoProbe: true}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		lines, err := decodeChunk(b)
		if err == nil && len(lines) > len(b) {
			t.Fatalf("%d lines in %d bytes", len(lines), len(b))
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte("s 0 1700000000000 tok -\nbody"))
	f.Add([]byte("c 2 1700000000000 - batch_cancelled\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := parseRecord(b); err == nil && r.outcome == "" {
			t.Fatalf("%q has no outcome", b)
		}
	})
}
