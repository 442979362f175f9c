package provider

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// spliceBody is a body as it goes out plainly.
func spliceBody(body []byte, model string, set map[string]any, drop []string) ([]byte, error) {
	p, err := newParcel(Request{Body: body, Model: model, Set: set, Drop: drop})
	if err != nil {
		return nil, err
	}
	return p.encode(variant{mode: asItCame}), nil
}

func TestSpliceBody(t *testing.T) {
	tests := []struct {
		name, body string
		model      string
		set        map[string]any
		drop       []string
		want       string
	}{
		{
			name: "everything but the model stays",
			body: "{ \"messages\" :[{\"role\":\"user\",\"content\":\"h\\u00e9\\/\"}] , \"model\":\t\"auto\",  \"temperature\":1.50e+0,\n\"x\":{\"model\":1} }\n",
			want: "{ \"messages\" :[{\"role\":\"user\",\"content\":\"h\\u00e9\\/\"}] , \"model\":\t\"m\",  \"temperature\":1.50e+0,\n\"x\":{\"model\":1} }\n",
		},
		{name: "the model is added at the end", body: `{"a":12345678901234567890 }`, want: `{"a":12345678901234567890,"model":"m" }`},
		{name: "an empty object", body: ` { } `, want: ` {"model":"m" } `},
		{name: "an escaped key", body: `{"mod\u0065l":"x"}`, want: `{"mod\u0065l":"m"}`},
		{name: "a repeated key is changed twice", body: `{"model":1,"model":[2,{"a":"}"}]}`, want: `{"model":"m","model":"m"}`},
		{name: "repeated keys stay", body: `{"a":1,"a":2,"model":null}`, want: `{"a":1,"a":2,"model":"m"}`},
		{name: "no model given", body: `{"model":"own"}`, model: "-", want: `{"model":"own"}`},
		{name: "quotes in the name", body: `{}`, model: `a"b<c>`, want: `{"model":"a\"b<c>"}`},
		{
			name: "set replaces in place and adds in order",
			body: `{"service_tier":"auto","model":"x"}`,
			set:  map[string]any{"service_tier": "flex", "z": 1, "b": []any{"<", 2.5}},
			want: `{"service_tier":"flex","model":"m","b":["<",2.5],"z":1}`,
		},
		{name: "drop the first", body: `{"a":1, "model":"x"}`, drop: []string{"a"}, want: `{ "model":"m"}`},
		{name: "drop the last", body: `{"model":"x" , "a":"\\"}`, drop: []string{"a"}, want: `{"model":"m" }`},
		{name: "drop all", body: `{"a":1,"b":2}`, model: "-", drop: []string{"b", "a", "c"}, want: `{}`},
		{name: "set wins over drop", body: `{"a":1}`, model: "-", set: map[string]any{"a": 2}, drop: []string{"a"}, want: `{"a":2}`},
		{name: "the model wins over both", body: `{"model":"x"}`, set: map[string]any{"model": "y"}, drop: []string{"model"}, want: `{"model":"m"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			model := tt.model
			switch model {
			case "":
				model = "m"
			case "-":
				model = ""
			}
			before := bytes.Clone([]byte(tt.body))
			got, err := spliceBody([]byte(tt.body), model, tt.set, tt.drop)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if string(before) != tt.body {
				t.Error("the input was changed")
			}
		})
	}
}

func TestSpliceBodyRefusesWhatIsNoObject(t *testing.T) {
	for _, body := range []string{"", " ", "null", `[]`, `"{}"`, `{`, `{"a":}`, `{"a":1}x`, `{"a" 1}`} {
		if got, err := spliceBody([]byte(body), "m", nil, nil); err == nil {
			t.Errorf("%q became %q", body, got)
		}
	}
	if _, err := spliceBody([]byte(`{}`), "m", map[string]any{"f": func() {}}, nil); err == nil {
		t.Error("a value without JSON was set")
	}
}

func FuzzSpliceBody(f *testing.F) {
	for _, s := range []string{`{}`, `{"model":"x","a":[1,{"b":"\"}"}],"c":-1.5e9}`, "{\"a\":true ,\n\"model\":null}", `{"mod\u0065l":1,"a":""}`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var want map[string]json.RawMessage
		isObject := json.Unmarshal(body, &want) == nil && want != nil
		same, err := spliceBody(body, "", nil, nil)
		if (err == nil) != isObject {
			t.Fatalf("error %v for %q", err, body)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(same, body) {
			t.Fatalf("nothing to change, but %q became %q", body, same)
		}
		out, err := spliceBody(body, "m", map[string]any{"s": 7}, []string{"a"})
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%q became %q: %v", body, out, err)
		}
		delete(want, "a")
		want["model"], want["s"] = json.RawMessage(`"m"`), json.RawMessage(`7`)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q became %q", body, out)
		}
	})
}

func TestReplaceField(t *testing.T) {
	for _, tc := range []struct{ body, want string }{
		{`{"a":1.50, "messages" : [1] ,"b":"é"}`, `{"a":1.50, "messages" : [2, 3] ,"b":"é"}`},
		{`{"a":1}`, `{"a":1,"messages":[2, 3]}`},
	} {
		got, err := ReplaceField([]byte(tc.body), "messages", []byte("[2, 3]"))
		if err != nil || string(got) != tc.want {
			t.Errorf("got %s, %v; want %s", got, err, tc.want)
		}
	}
	if _, err := ReplaceField([]byte(`[1]`), "messages", []byte("1")); err == nil {
		t.Error("an array has no fields")
	}
}
