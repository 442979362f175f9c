package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"time"
)

// hidden stands where a value could be a secret.
const hidden = "xxxxx"

// Redacted returns the resolved configuration as YAML: every key with the value
// that holds, without passwords and header values.
func (c *Config) Redacted() string {
	var w writer
	w.mapping(renderStruct(reflect.ValueOf(*c)), 0)
	return w.String()
}

// Hash is short and the same for equal configurations, however they are
// written. It leaves out where Redis is, the addresses that a process listens on
// (two workers of a machine need two) and every value that could be a secret.
func (c *Config) Hash() string {
	same := *c
	same.Redis = Redis{}
	same.Dashboard.Addr, same.Metrics.Addr = "", ""
	same.Dashboard.TLS = TLS{} // a machine's own files
	same.Ladders = maps.Clone(c.Ladders)
	for name, l := range same.Ladders { // what a schema says, wherever it stands
		if l.Output.SchemaText != nil {
			l.Output.Schema = fmt.Sprintf("%x", sha256.Sum256(l.Output.SchemaText))
			same.Ladders[name] = l
		}
	}
	sum := sha256.Sum256([]byte(same.Redacted()))
	return hex.EncodeToString(sum[:6])
}

// String names the configuration by its hash; [Config.Redacted] shows it.
func (c Config) String() string { return "configuration " + c.Hash() }

// GoString keeps secrets out of %#v.
func (c Config) GoString() string { return c.String() }

// LogValue keeps secrets, and a page of text, out of logs.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// String shows names alone.
func (h Headers) String() string { return fmt.Sprint(slices.Sorted(maps.Keys(h))) }

// GoString keeps values out of %#v.
func (h Headers) GoString() string { return h.String() }

// LogValue keeps values out of logs.
func (h Headers) LogValue() slog.Value { return slog.StringValue(h.String()) }

// MarshalJSON hides the values.
func (h Headers) MarshalJSON() ([]byte, error) { return json.Marshal(h.redacted()) }

func (h Headers) redacted() map[string]string {
	out := make(map[string]string, len(h))
	for name := range h {
		out[name] = hidden
	}
	return out
}

// String shows the host alone.
func (u SecretURL) String() string {
	if u == "" {
		return ""
	}
	parsed, err := url.Parse(string(u))
	if err != nil || parsed.Host == "" {
		return hidden
	}
	return parsed.Scheme + "://" + parsed.Host + "/" + hidden
}

// GoString keeps the rest out of %#v.
func (u SecretURL) GoString() string { return u.String() }

// LogValue keeps the rest out of logs.
func (u SecretURL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalJSON hides the rest.
func (u SecretURL) MarshalJSON() ([]byte, error) { return json.Marshal(u.String()) }

// render turns a value into pairs, lists and scalars, as the file would have it. tag is of the value's field.
func render(v reflect.Value, tag reflect.StructTag) any {
	switch x := v.Interface().(type) {
	case Redis:
		return []pair{{"url", x.String()}}
	case Headers:
		return renderMap(reflect.ValueOf(x.redacted()))
	case SecretURL:
		return x.String()
	case time.Duration:
		return duration(x)
	case Auto:
		if x == 0 {
			return "auto"
		}
		return duration(time.Duration(x))
	}
	switch v.Kind() {
	case reflect.Struct:
		return renderStruct(v)
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return render(v.Elem(), "")
	case reflect.Map:
		return renderMap(v)
	case reflect.Slice:
		return renderList(v, tag.Get("keyed"))
	}
	return v.Interface()
}

func renderStruct(v reflect.Value) []pair {
	out := []pair{}
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		if key := tag.Get("yaml"); key != "" && key != "-" && !absent(v.Field(i), tag) {
			out = append(out, pair{key, render(v.Field(i), tag)})
		}
	}
	return out
}

// absent says whether leaving a key out means the same as its value.
func absent(v reflect.Value, tag reflect.StructTag) bool {
	_, hasDefault := tag.Lookup("default")
	switch v.Kind() {
	case reflect.Map, reflect.Slice, reflect.Pointer:
		return v.IsZero() || v.Kind() != reflect.Pointer && v.Len() == 0
	case reflect.String:
		return v.IsZero() && !hasDefault
	case reflect.Int:
		return v.IsZero() && tag.Get("min") != "" // the tries of a text rung
	}
	return false
}

func renderMap(v reflect.Value) any {
	if v.Type().Elem().Kind() == reflect.Interface {
		return v.Interface() // written as JSON, which sorts the keys
	}
	out := []pair{}
	for _, key := range slices.Sorted(maps.Keys(keysOf(v))) {
		out = append(out, pair{key, render(v.MapIndex(reflect.ValueOf(key)), "")})
	}
	return out
}

func keysOf(v reflect.Value) map[string]bool {
	keys := map[string]bool{}
	for _, k := range v.MapKeys() {
		keys[k.String()] = true
	}
	return keys
}

// renderList writes a list, or the mapping that a keyed list was.
func renderList(v reflect.Value, keyed string) any {
	if keyed == "" {
		out := make([]any, v.Len())
		for i := range out {
			out[i] = render(v.Index(i), "")
		}
		return out
	}
	out := []pair{}
	for i := range v.Len() {
		out = append(out, pair{v.Index(i).FieldByName(keyed).String(), render(v.Index(i), "")})
	}
	return out
}
